// The Python module tenfold._native: each area binds its own functions.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "isa.hpp"

namespace nb = nanobind;

namespace tenfold {
void bind_linear(nb::module_& m);
void bind_attention(nb::module_& m);
void bind_rows(nb::module_& m);
void bind_sampling(nb::module_& m);
void bind_program(nb::module_& m);
void bind_ceilings(nb::module_& m);
}  // namespace tenfold

NB_MODULE(_native, m) {
  m.doc() = "Native kernels of Tenfold.";
  m.def("supported_isas", [] {
    std::vector<std::string> names;
    for (tenfold::Isa isa : tenfold::supported_isas()) names.emplace_back(tenfold::isa_name(isa));
    return names;
  }, "Instruction sets this CPU can run, slowest first.");
  tenfold::bind_linear(m);
  tenfold::bind_attention(m);
  tenfold::bind_rows(m);
  tenfold::bind_sampling(m);
  tenfold::bind_program(m);
  tenfold::bind_ceilings(m);
}
