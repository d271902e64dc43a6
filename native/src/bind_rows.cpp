// Row kernels for tests: each takes and returns float32 arrays.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <stdexcept>

#include "rows.hpp"

namespace nb = nanobind;

namespace tenfold {
namespace {

using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Row = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void same_size(size_t a, size_t b, const char* what) {
  if (a != b) throw std::invalid_argument(std::string("row kernels need arrays of one length; ") + what + " differs.");
}

const RowKernels& kernels(const std::string& isa) { return row_kernels(parse_isa(isa)); }

void rms_norm(const std::string& isa, Floats x, Floats weight, float eps, Row out) {
  same_size(x.size(), weight.size(), "weight");
  same_size(x.size(), out.size(), "out");
  const RowKernels& k = kernels(isa);
  nb::gil_scoped_release free;
  k.rms_norm(x.data(), weight.data(), eps, static_cast<int>(x.size()), out.data());
}

void rope(const std::string& isa, Row x, int heads, int rotary_dim, Floats cos, Floats sin, bool interleaved) {
  if (heads < 1 || x.size() % heads != 0) throw std::invalid_argument("rope needs x to hold `heads` equal heads.");
  const int head_dim = static_cast<int>(x.size()) / heads;
  if (rotary_dim % 2 != 0 || rotary_dim < 0 || rotary_dim > head_dim)
    throw std::invalid_argument("rope needs an even rotary_dim of at most head_dim.");
  same_size(cos.size(), static_cast<size_t>(rotary_dim / 2), "cos");
  same_size(sin.size(), static_cast<size_t>(rotary_dim / 2), "sin");
  const RowKernels& k = kernels(isa);
  nb::gil_scoped_release free;
  k.rope(x.data(), heads, head_dim, rotary_dim, cos.data(), sin.data(), interleaved);
}

void gated(const std::string& isa, const std::string& kind, Floats gate, Floats up, Row out) {
  if (kind != "silu" && kind != "gelu_tanh")
    throw std::invalid_argument("gated activation '" + kind + "' is unknown; choose silu or gelu_tanh.");
  same_size(gate.size(), up.size(), "up");
  same_size(gate.size(), out.size(), "out");
  const RowKernels& k = kernels(isa);
  nb::gil_scoped_release free;
  k.gated(kind == "silu" ? Gate::silu : Gate::gelu_tanh, gate.data(), up.data(), static_cast<int>(gate.size()),
          out.data());
}

void add(const std::string& isa, Floats x, Row out) {
  same_size(x.size(), out.size(), "out");
  const RowKernels& k = kernels(isa);
  nb::gil_scoped_release free;
  k.add(x.data(), static_cast<int>(x.size()), out.data());
}

void scale(const std::string& isa, Row x, float factor) {
  const RowKernels& k = kernels(isa);
  nb::gil_scoped_release free;
  k.scale(x.data(), static_cast<int>(x.size()), factor);
}

void softcap(const std::string& isa, Row x, float cap) {
  const RowKernels& k = kernels(isa);
  nb::gil_scoped_release free;
  k.softcap(x.data(), static_cast<int>(x.size()), cap);
}

}  // namespace

void bind_rows(nb::module_& m) {
  m.def("rms_norm", &rms_norm, nb::arg("isa"), nb::arg("x"), nb::arg("weight"), nb::arg("eps"), nb::arg("out"),
        "out = x / sqrt(mean(x^2) + eps) * weight.");
  m.def("rope", &rope, nb::arg("isa"), nb::arg("x"), nb::arg("heads"), nb::arg("rotary_dim"), nb::arg("cos"),
        nb::arg("sin"), nb::arg("interleaved"), "Rotates the heads of x in place.");
  m.def("gated", &gated, nb::arg("isa"), nb::arg("kind"), nb::arg("gate"), nb::arg("up"), nb::arg("out"),
        "out = act(gate) * up.");
  m.def("add", &add, nb::arg("isa"), nb::arg("x"), nb::arg("out"), "out += x.");
  m.def("scale", &scale, nb::arg("isa"), nb::arg("x"), nb::arg("factor"), "x *= factor.");
  m.def("softcap", &softcap, nb::arg("isa"), nb::arg("x"), nb::arg("cap"), "x = cap * tanh(x / cap).");
}

}  // namespace tenfold
