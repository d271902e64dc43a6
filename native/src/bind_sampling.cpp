#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bind_arrays.hpp"
#include "sampling.hpp"
#include "sampling_batch.hpp"
#include "sampling_random.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tenfold {
namespace {

template <class T, int Dims = 1>
using Array = nb::ndarray<const T, nb::ndim<Dims>, nb::c_contig, nb::device::cpu>;

template <class T, class... Limits>
std::vector<T> copy(const nb::ndarray<const T, Limits...>& array) {
  return array.size() ? std::vector<T>(array.data(), array.data() + array.size()) : std::vector<T>();
}

void build_arrays(SamplingArrays* self, Array<float, 2> floats, Array<int32_t> top_k, Array<uint64_t> seed,
                  Array<uint64_t> draw, Array<int32_t> num_logprobs, Array<int32_t> prompt_ids,
                  Array<int64_t> prompt_offsets, Array<int32_t> output_ids, Array<int64_t> output_offsets,
                  Array<int32_t> bias_ids, Array<int64_t> bias_offsets, Array<float> bias_values,
                  Array<int32_t> banned_ids, Array<int64_t> banned_offsets) {
  if (floats.shape(1) != 7 || floats.shape(0) > 1 << 20)
    throw std::invalid_argument("floats must have 7 columns and at most 1048576 rows.");
  SamplingArrays arrays;
  arrays.count = int(floats.shape(0));
  arrays.floats = copy(floats);
  arrays.top_k = copy(top_k);
  arrays.seed = copy(seed);
  arrays.draw = copy(draw);
  arrays.num_logprobs = copy(num_logprobs);
  arrays.prompt = {copy(prompt_ids), copy(prompt_offsets)};
  arrays.output = {copy(output_ids), copy(output_offsets)};
  arrays.bias = {copy(bias_ids), copy(bias_offsets)};
  arrays.banned = {copy(banned_ids), copy(banned_offsets)};
  arrays.bias_values = copy(bias_values);
  arrays.check();
  new (self) SamplingArrays(std::move(arrays));
}

// The likeliest tokens of all rows, side by side, padded with -1 and -inf.
template <class Result>
std::pair<std::vector<int32_t>, std::vector<float>> side_by_side(const std::vector<Result>& results, size_t width) {
  std::vector<int32_t> ids(results.size() * width, -1);
  std::vector<float> logprobs(results.size() * width, -std::numeric_limits<float>::infinity());
  for (size_t i = 0; i < results.size(); ++i) {
    std::copy(results[i].top_ids.begin(), results[i].top_ids.end(), ids.begin() + i * width);
    std::copy(results[i].top_logprobs.begin(), results[i].top_logprobs.end(), logprobs.begin() + i * width);
  }
  return {std::move(ids), std::move(logprobs)};
}

nb::tuple sample(const std::string& isa_name, Array<float, 2> logits, const SamplingArrays& arrays) {
  const Isa isa = parse_isa(isa_name);
  const size_t rows = logits.shape(0), vocab = logits.shape(1);
  if (rows != size_t(arrays.count))
    throw std::invalid_argument("logits has " + std::to_string(rows) + " rows; the sampling arrays have " +
                                std::to_string(arrays.count) + ".");
  if (vocab > size_t(1) << 30) throw std::invalid_argument("logits has more than 2^30 columns.");
  arrays.check_vocab(int(vocab));
  std::vector<Sampled> picked(rows);
  size_t width = 0;
  {
    nb::gil_scoped_release released;
    SampleScratch scratch;
    std::vector<float> values;
    for (size_t i = 0; i < rows; ++i) {
      values.assign(logits.data() + i * vocab, logits.data() + (i + 1) * vocab);
      sample_row(isa, values.data(), int(vocab), row(arrays, int(i)), scratch, picked[i]);
      width = std::max(width, picked[i].top_ids.size());
    }
  }
  std::vector<int32_t> tokens(rows);
  std::vector<float> logprobs(rows);
  for (size_t i = 0; i < rows; ++i) {
    tokens[i] = picked[i].token;
    logprobs[i] = picked[i].logprob;
  }
  auto [top_ids, top_logprobs] = side_by_side(picked, width);
  return nb::make_tuple(to_numpy(std::move(tokens), {rows}), to_numpy(std::move(logprobs), {rows}),
                        to_numpy(std::move(top_ids), {rows, width}),
                        to_numpy(std::move(top_logprobs), {rows, width}));
}

nb::tuple score(const std::string& isa_name, Array<float, 2> logits, Array<int32_t> targets, int most) {
  const Isa isa = parse_isa(isa_name);
  const size_t rows = logits.shape(0), vocab = logits.shape(1);
  if (rows != targets.size() || vocab > size_t(1) << 30 || most < 0)
    throw std::invalid_argument("logits must have a row for each target, at most 2^30 columns, and most be 0 or more.");
  for (size_t i = 0; i < rows; ++i)
    if (targets(i) < 0 || size_t(targets(i)) >= vocab)
      throw std::invalid_argument("target " + std::to_string(targets(i)) + " is outside the vocabulary.");
  std::vector<Scored> scored(rows);
  size_t width = 0;
  {
    nb::gil_scoped_release released;
    SampleScratch scratch;
    std::vector<float> values;
    for (size_t i = 0; i < rows; ++i) {
      values.assign(logits.data() + i * vocab, logits.data() + (i + 1) * vocab);
      score_row(isa, values.data(), int(vocab), targets(i), most, scratch, scored[i]);
      width = std::max(width, scored[i].top_ids.size());
    }
  }
  std::vector<float> logprobs;
  std::vector<int32_t> ranks;
  for (const Scored& one : scored) {
    logprobs.push_back(one.logprob);
    ranks.push_back(one.rank);
  }
  auto [top_ids, top_logprobs] = side_by_side(scored, width);
  return nb::make_tuple(to_numpy(std::move(logprobs), {rows}), to_numpy(std::move(ranks), {rows}),
                        to_numpy(std::move(top_ids), {rows, width}),
                        to_numpy(std::move(top_logprobs), {rows, width}));
}

}  // namespace

void bind_sampling(nb::module_& m) {
  nb::class_<SamplingArrays>(m, "SamplingArrays",
                             "Sampling parameters of n rows, copied from arrays and checked (ValueError).\n\n"
                             "floats is float32 [n, 7]: temperature, top_p, min_p, typical_p, repetition_penalty,\n"
                             "presence_penalty, frequency_penalty. top_k and num_logprobs are int32 [n], seed and draw\n"
                             "uint64 [n]. Ids are int32 with int64 [n + 1] offsets; bias_values float32, one a bias id.")
      .def("__init__", &build_arrays,
           "floats"_a.noconvert(), "top_k"_a.noconvert(), "seed"_a.noconvert(), "draw"_a.noconvert(),
           "num_logprobs"_a.noconvert(), "prompt_ids"_a.noconvert(), "prompt_offsets"_a.noconvert(),
           "output_ids"_a.noconvert(), "output_offsets"_a.noconvert(), "bias_ids"_a.noconvert(),
           "bias_offsets"_a.noconvert(), "bias_values"_a.noconvert(), "banned_ids"_a.noconvert(),
           "banned_offsets"_a.noconvert())
      .def("set_draw", [](SamplingArrays& arrays, std::vector<uint64_t> draw) {
        if (draw.size() != size_t(arrays.count))
          throw std::invalid_argument("draw has " + std::to_string(draw.size()) + " entries; expected " +
                                      std::to_string(arrays.count) + ".");
        arrays.draw = std::move(draw);
      }, "draw"_a, "Replaces draw, for a later step of the same rows.")
      .def("set_masks", [](SamplingArrays& arrays, Array<int32_t> mask_rows, Array<uint32_t, 2> masks) {
        if (masks.shape(0) > 1 << 20 || masks.shape(1) > 1 << 25)
          throw std::invalid_argument("masks must have at most 1048576 rows and 33554432 words.");
        arrays.set_masks(copy(mask_rows), copy(masks), int(masks.shape(0)), int(masks.shape(1)));
      }, "mask_rows"_a.noconvert(), "masks"_a.noconvert(),
           "Limits what may be picked, in place of earlier masks: mask_rows is int32 [n], the row's number among masks\n"
           "or -1 for none; masks is uint32 [m, words], a bit a token, set where it may be picked.")
      .def("__len__", [](const SamplingArrays& arrays) { return arrays.count; })
      .def("check_vocab", &SamplingArrays::check_vocab, "vocab"_a, "ValueError if an id is not below vocab.");
  m.def("sample", &sample, "isa"_a, "logits"_a.noconvert(), "arrays"_a,
        "Pick a token for each row of logits, float32 [rows, vocab], which stay as they are.\n\n"
        "Returns (tokens int32 [rows], logprobs float32 [rows], top_ids int32 [rows, most], top_logprobs float32\n"
        "[rows, most]), padded with -1 and -inf. A token is -1 if all logits are NaN or -inf. ValueError if an id or\n"
        "the number of rows does not fit.");
  m.def("score", &score, "isa"_a, "logits"_a.noconvert(), "targets"_a.noconvert(), "most"_a,
        "How likely a token is in each row of logits, float32 [rows, vocab]; targets is int32 [rows].\n\n"
        "Returns (logprobs float32 [rows], ranks int32 [rows], top_ids int32 [rows, most], top_logprobs float32\n"
        "[rows, most]), padded with -1 and -inf. A rank counts the tokens at least as likely; it is 0 if all logits\n"
        "are NaN or -inf. ValueError if shapes or targets do not fit.");
  m.def("uniform", &uniform, "seed"_a, "draw"_a, "The draw-th uniform number of a seed, float64 in [0, 1).");
}

}  // namespace tenfold
