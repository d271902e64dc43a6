#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace tenfold {

void bind_attention(nb::module_& m) { (void)m; }

}  // namespace tenfold
