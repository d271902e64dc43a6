// Python bindings of the linear kernels, for tests and for packing weights.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "activations.hpp"
#include "bind_arrays.hpp"
#include "linear.hpp"
#include "packed_weight.hpp"

namespace nb = nanobind;

namespace tenfold {
namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::vector<T> copied(const T* from, size_t count) { return {from, from + count}; }

nb::object quantize_rows(const std::string& isa, const Matrix& x) {
  const size_t rows = x.shape(0);
  const int k = static_cast<int>(x.shape(1));
  if (k == 0) throw std::invalid_argument("Rows to quantize have no columns; give at least one.");
  const LinearKernels& kernels = linear_kernels(parse_isa(isa));
  const size_t padded = padded_to_pairs(k), groups = padded / kGroup;
  std::vector<int8_t> q;
  std::vector<float> scale, unit, outliers(rows * k);
  std::vector<int32_t> sum;
  QuantizedScratch scratch;
  std::vector<Outlier> found(outlier_capacity(k));
  for (size_t r = 0; r < rows; ++r) {
    int32_t count = 0;
    QuantizedRow row = scratch.row(k);
    row.outliers = found.data();
    row.num_outliers = &count;
    kernels.quantize_row(x.data() + r * k, k, kOutlierAbove, row);
    q.insert(q.end(), row.q, row.q + padded);
    scale.insert(scale.end(), row.scale, row.scale + groups);
    unit.insert(unit.end(), row.unit, row.unit + blocks_of(k));
    sum.insert(sum.end(), row.sum, row.sum + groups);
    for (int i = 0; i < count; ++i) outliers[r * k + found[i].k] = found[i].value;
  }
  return nb::make_tuple(to_numpy(std::move(q), {rows, padded}), to_numpy(std::move(scale), {rows, groups}),
                        to_numpy(std::move(sum), {rows, groups}),
                        to_numpy(std::move(unit), {rows, static_cast<size_t>(blocks_of(k))}),
                        to_numpy(std::move(outliers), {rows, static_cast<size_t>(k)}));
}

nb::ndarray<nb::numpy, uint16_t> bf16_rows(const std::string& isa, const Matrix& x) {
  const LinearKernels& kernels = linear_kernels(parse_isa(isa));
  const size_t rows = x.shape(0), padded = padded_to_pairs(static_cast<int>(x.shape(1)));
  std::vector<uint16_t> out(rows * padded);
  for (size_t r = 0; r < rows; ++r)
    kernels.bf16_row(x.data() + r * x.shape(1), static_cast<int>(x.shape(1)), out.data() + r * padded);
  return to_numpy(std::move(out), {rows, padded});
}

nb::ndarray<nb::numpy, float> multiply(const std::string& isa_text, const PackedWeight& w, const Matrix& x,
                                       std::optional<Vector> bias, std::optional<Matrix> add_to, int threads,
                                       int panels_per_task) {
  const LinearKernels& kernels = linear_kernels(parse_isa(isa_text));
  const int rows = static_cast<int>(x.shape(0));
  if (static_cast<int>(x.shape(1)) != w.k)
    throw std::invalid_argument("Rows of " + std::to_string(x.shape(1)) + " columns cannot meet a weight of " +
                                std::to_string(w.k) + " columns.");
  if (bias && static_cast<int>(bias->shape(0)) != w.n)
    throw std::invalid_argument("A bias of " + std::to_string(bias->shape(0)) + " values cannot meet a weight of " +
                                std::to_string(w.n) + " rows.");
  if (add_to && (static_cast<int>(add_to->shape(0)) != rows || static_cast<int>(add_to->shape(1)) != w.n))
    throw std::invalid_argument("What is added to must have the result's shape.");
  if (panels_per_task < 1) throw std::invalid_argument("panels_per_task must be at least 1.");
  std::vector<float> y(static_cast<size_t>(rows) * w.n);
  if (add_to) std::copy_n(add_to->data(), y.size(), y.data());
  {
    nb::gil_scoped_release release;
    const Form form = weight_form(kernels, w);
    ActivationStore store(kernels, rows, w.k, form);
    store.plan(rows);
    for (int r = 0; r < rows; ++r) store.put(x.data() + static_cast<size_t>(r) * w.k, w.k, r, form);
    const Activations view = store.view(w.k);
    const int tiles = static_cast<int>(view.tiles->size());
    const LinearOut out{y.data(), w.n, bias ? bias->data() : nullptr, add_to.has_value()};
    ThreadPool pool(threads);
    pool.run((w.panels + panels_per_task - 1) / panels_per_task, [&](int task, int) {
      const int begin = task * panels_per_task;
      const int end = begin + panels_per_task < w.panels ? begin + panels_per_task : w.panels;
      kernels.multiply(w, view, 0, tiles, begin, end, out);
    });
  }
  return to_numpy(std::move(y), {x.shape(0), static_cast<size_t>(w.n)});
}

std::shared_ptr<PackedWeight> pack(int ggml_type, const Bytes& data, int n, int k, int threads) {
  nb::gil_scoped_release release;
  ThreadPool pool(threads);
  // Python has no const; nothing it can reach changes a packed weight.
  return std::const_pointer_cast<PackedWeight>(pack_weight(ggml_type, data.data(), data.size(), n, k, pool));
}

void check_row(const PackedWeight& w, int row) {
  if (row < 0 || row >= w.n)
    throw nb::index_error(
        ("Row " + std::to_string(row) + " is not one of the weight's " + std::to_string(w.n) + " rows.").c_str());
}

nb::object parts(const PackedWeight& w) {
  if (w.layout.bits == 16) throw std::invalid_argument("A bf16 weight has no codes and scales; use unpack_row.");
  const size_t k = w.k, n = w.n, subs = k / w.layout.sub;
  std::vector<int32_t> codes(n * k);
  std::vector<float> scales(n * subs), minimums(w.layout.min ? n * subs : 0);
  for (size_t row = 0; row < n; ++row)
    unpack_parts(w, static_cast<int>(row), &codes[row * k], &scales[row * subs],
                 w.layout.min ? &minimums[row * subs] : nullptr);
  const size_t blocks = blocks_of(w.k);
  std::vector<float> units(w.layout.paired() ? n * blocks : 0);
  if (w.layout.paired())
    for (size_t row = 0; row < n; ++row) unpack_units(w, static_cast<int>(row), &units[row * blocks]);
  nb::object none = nb::none();
  return nb::make_tuple(to_numpy(std::move(codes), {n, k}), to_numpy(std::move(scales), {n, subs}),
                        w.layout.min ? nb::cast(to_numpy(std::move(minimums), {n, subs})) : none,
                        w.layout.paired() ? nb::cast(to_numpy(std::move(units), {n, blocks})) : none);
}

}  // namespace

void bind_linear(nb::module_& m) {
  nb::class_<PackedWeight>(m, "PackedWeight", "A weight matrix laid out for the linear kernels; see pack_weight.")
      .def_prop_ro("n", [](const PackedWeight& w) { return w.n; }, "Rows: outputs.")
      .def_prop_ro("k", [](const PackedWeight& w) { return w.k; }, "Columns: inputs.")
      .def_prop_ro("nbytes", [](const PackedWeight& w) { return w.bytes; }, "Bytes held.")
      .def_prop_ro("format", [](const PackedWeight& w) { return w.format->name; }, "Name of the storage type.")
      .def_prop_ro("exponent", &weight_exponent,
                   "Values times 2^exponent are below 2^15; amx keeps them so in float16. Integer formats only.")
      .def("unpack_row", [](const PackedWeight& w, int row) {
        check_row(w, row);
        std::vector<float> out(w.k);
        unpack_row(w, row, out.data());
        return to_numpy(std::move(out), {static_cast<size_t>(w.k)});
      }, nb::arg("row"), "Float32 values of one row, exactly those that products are made with.")
      .def("parts", &parts,
           "(codes int32 [n, k], scales float32 [n, k / s], minimums likewise or None, units float32 [n, blocks of 256] "
           "or None), s elements sharing a scale: value = scale * code + minimum. 4-bit formats have units: their "
           "scales are whole multiples of their block's. Integer formats only.");
  m.def("pack_weight", &pack, nb::arg("ggml_type"), nb::arg("data"), nb::arg("n"), nb::arg("k"),
        nb::arg("threads") = 1,
        "Pack n rows of k columns in a ggml storage type (number as in GGUF) from a uint8 array. Raises ValueError for "
        "unsupported types, wrong sizes, and scales that are not finite.");
  m.def("quantize_rows", &quantize_rows, nb::arg("isa"), nb::arg("x"),
        "(q int8 [rows, padded k], scale float32 [rows, groups], sum int32 likewise, unit float32 [rows, "
        "blocks], outliers float32 [rows, k]) of "
        "float32 [rows, k]: x = scale * q + outliers, which are 0 but where an element was cut off.");
  m.def("bf16_rows", &bf16_rows, nb::arg("isa"), nb::arg("x"),
        "Bits of bfloat16 [rows, padded k] of float32 [rows, k].");
  m.def("multiply", &multiply, nb::arg("isa"), nb::arg("weight"), nb::arg("x"), nb::arg("bias") = nb::none(),
        nb::arg("add_to") = nb::none(), nb::arg("threads") = 1, nb::arg("panels_per_task") = 8,
        "float32 [rows, n] = x [rows, k] times the weight's transpose, plus bias [n], plus add_to [rows, n].");
}

}  // namespace tenfold
