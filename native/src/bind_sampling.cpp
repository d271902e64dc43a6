#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace tenfold {

void bind_sampling(nb::module_& m) { (void)m; }

}  // namespace tenfold
