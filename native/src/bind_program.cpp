// Binds NativeProgram as tenfold._native.Program. The step's arrays are read in place; the GIL is free while it runs.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "bind_arrays.hpp"
#include "program.hpp"
#include "sampling_batch.hpp"

namespace nb = nanobind;

namespace tenfold {
namespace {

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Columns = std::vector<int>;  // buffer, start, width

View view(const Columns& v) {
  if (v.size() != 3) throw std::invalid_argument("a view is (buffer, start, width).");
  return View{v[0], v[1], v[2]};
}

// Numbers from a list, of which an array would cost more to hand over than it holds in most steps.
using Ints = std::vector<int32_t>;

StepInput step_input(const Ints& tokens, const Ints& counts, const Ints& starts, const Array<int32_t>& blocks,
                     const std::vector<int64_t>& offsets, const Ints& logit_rows) {
  const size_t sequences = counts.size();
  if (starts.size() != sequences || offsets.size() != sequences + 1)
    throw std::invalid_argument("counts, starts and block offsets do not agree.");
  if (offsets[0] != 0) throw std::invalid_argument("block offsets must start at 0.");
  for (size_t s = 0; s < sequences; ++s)
    if (offsets[s] > offsets[s + 1]) throw std::invalid_argument("block offsets must not decrease.");
  if (offsets[sequences] != static_cast<int64_t>(blocks.size()))
    throw std::invalid_argument("block offsets must end at the number of blocks.");
  return StepInput{tokens.data(), static_cast<int>(tokens.size()), counts.data(), starts.data(), blocks.data(),
                   offsets.data(), static_cast<int>(sequences), logit_rows.data(),
                   static_cast<int>(logit_rows.size())};
}

nb::ndarray<nb::numpy, float> step_logits(NativeProgram& program, const Ints& tokens, const Ints& counts,
                                          const Ints& starts, const Array<int32_t>& blocks,
                                          const std::vector<int64_t>& offsets, const Ints& logit_rows) {
  const StepInput input = step_input(tokens, counts, starts, blocks, offsets, logit_rows);
  std::vector<float> logits(static_cast<size_t>(input.num_logit_rows) * program.vocab());
  {
    nb::gil_scoped_release release;
    program.step(input, logits.data(), nullptr, nullptr);
  }
  return to_numpy(std::move(logits), {static_cast<size_t>(input.num_logit_rows), static_cast<size_t>(program.vocab())});
}

nb::list top_list(const std::vector<int32_t>& ids, const std::vector<float>& logprobs) {
  nb::list top;
  for (size_t i = 0; i < ids.size(); ++i) top.append(nb::make_tuple(ids[i], logprobs[i]));
  return top;
}

// Returns (tokens, logprobs, tops, scores): tops is a list with None or a list of (token, logprob) for each row, scores
// one of (logprob, rank, such a list) for each row to score. `scores` are (row, token, how many of the likeliest), flat.
nb::tuple step(NativeProgram& program, const Ints& tokens, const Ints& counts, const Ints& starts,
               const Array<int32_t>& blocks, const std::vector<int64_t>& offsets, const Ints& logit_rows,
               const SamplingArrays& sampling, const Ints& scores) {
  StepInput input = step_input(tokens, counts, starts, blocks, offsets, logit_rows);
  const int rows = input.num_logit_rows;
  sampling.check_vocab(program.vocab());
  if (sampling.count != rows) throw std::invalid_argument("sampling rows and logits rows do not agree.");
  std::vector<SampleParams> params;
  for (int i = 0; i < rows; ++i) params.push_back(row(sampling, i));
  std::vector<Sampled> sampled(rows);
  if (scores.size() % 3 != 0) throw std::invalid_argument("scores are threes of row, token and count.");
  std::vector<ScoreRow> score_rows;
  for (size_t i = 0; i < scores.size(); i += 3) score_rows.push_back({scores[i], scores[i + 1], scores[i + 2]});
  std::vector<Scored> scored(score_rows.size());
  input.score_rows = score_rows.data();
  input.num_score_rows = static_cast<int>(score_rows.size());
  {
    nb::gil_scoped_release release;
    program.step(input, nullptr, params.data(), sampled.data(), scored.data());
  }
  nb::list ids, logprobs, tops;
  for (int i = 0; i < rows; ++i) {
    ids.append(sampled[i].token);
    logprobs.append(sampled[i].logprob);
    if (params[i].num_logprobs < 0) tops.append(nb::none());
    else tops.append(top_list(sampled[i].top_ids, sampled[i].top_logprobs));
  }
  nb::list found;
  for (const Scored& score : scored)
    found.append(nb::make_tuple(score.logprob, score.rank, top_list(score.top_ids, score.top_logprobs)));
  return nb::make_tuple(ids, logprobs, tops, found);
}

nb::dict step_times(const NativeProgram& program) {
  const StepTimes times = program.step_times();
  const char* kinds[] = {"rows", "linear", "attention", "logits"};
  nb::list stages;
  for (const StageTime& stage : times.stages) {
    nb::list parts;
    for (const PartTime& part : stage.parts) parts.append(nb::make_tuple(part.number, part.quantize, part.seconds));
    stages.append(nb::make_tuple(kinds[stage.kind], stage.seconds, parts));
  }
  nb::dict result;
  result["steps"] = times.steps;
  result["seconds"] = times.seconds;
  result["prepare"] = times.prepare;
  result["sampling"] = times.sampling;
  result["stages"] = stages;
  return result;
}

}  // namespace

void bind_program(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<NativeProgram>(m, "Program", "A forward pass, lowered: buffers, weights and stages, run step by step.")
      .def("__init__", [](NativeProgram* self, const std::string& isa, int threads) {
        new (self) NativeProgram(parse_isa(isa), threads);
      }, "isa"_a, "threads"_a)
      .def("add_buffer", &NativeProgram::add_buffer, "width"_a)
      .def("add_weight", [](NativeProgram& self, int type, const Array<uint8_t>& data, int n, int k) {
        nb::gil_scoped_release release;
        return self.add_weight(type, data.data(), data.size(), n, k);
      }, "ggml_type"_a, "data"_a, "n"_a, "k"_a, "Packs an n x k matrix from its stored bytes; returns its number.")
      .def("add_vector", [](NativeProgram& self, const Array<float>& values) {
        return self.add_vector(std::vector<float>(values.data(), values.data() + values.size()));
      }, "values"_a)
      .def("add_rope", [](NativeProgram& self, std::vector<float> inv_freq, float factor, bool interleaved) {
        return self.add_rope(RopeTable{std::move(inv_freq), factor, interleaved});
      }, "inv_freq"_a, "factor"_a, "interleaved"_a)
      .def("embed", [](NativeProgram& self, const Columns& out, int weight, float scale) {
        self.embed(EmbedOp{view(out), weight, scale});
      }, "out"_a, "weight"_a, "scale"_a)
      .def("rms_norm", [](NativeProgram& self, const Columns& x, const Columns& out, int vector, float eps,
                          int head_dim) {
        self.rms_norm(RmsNormOp{view(x), view(out), vector, eps, head_dim});
      }, "x"_a, "out"_a, "vector"_a, "eps"_a, "head_dim"_a)
      .def("rope", [](NativeProgram& self, const Columns& x, int head_dim, int rope) {
        self.rope(RopeOp{view(x), head_dim, rope});
      }, "x"_a, "head_dim"_a, "rope"_a)
      .def("gated", [](NativeProgram& self, const Columns& gate, const Columns& up, const Columns& out, bool gelu,
                       bool alone) {
        self.gated(GatedOp{view(gate), view(up), view(out), gelu ? Gate::gelu_tanh : Gate::silu}, alone);
      }, "gate"_a, "up"_a, "out"_a, "gelu"_a, "alone"_a, "alone: no other op reads gate and up.")
      .def("add", [](NativeProgram& self, const Columns& x, const Columns& out) {
        self.add(AddOp{view(x), view(out)});
      }, "x"_a, "out"_a)
      .def("linear", [](NativeProgram& self, const Columns& x, const Columns& out, std::vector<int> weights,
                        std::vector<int> biases, bool add) {
        self.linear(LinearStage{view(x), view(out), std::move(weights), std::move(biases), add});
      }, "x"_a, "out"_a, "weights"_a, "biases"_a, "add"_a, "A bias of -1 is none.")
      .def("attention", [](NativeProgram& self, const Columns& q, const Columns& k, const Columns& v,
                           const Columns& out, int layer, int num_heads, int num_kv_heads, int head_dim, float scale,
                           int window) {
        self.attention(AttentionStage{view(q), view(k), view(v), view(out), layer, num_heads, num_kv_heads, head_dim,
                                      scale, window});
      }, "q"_a, "k"_a, "v"_a, "out"_a, "layer"_a, "num_heads"_a, "num_kv_heads"_a, "head_dim"_a, "scale"_a,
         "window"_a)
      .def("logits", [](NativeProgram& self, const Columns& x, int weight, float softcap) {
        self.logits(LogitsStage{view(x), weight, softcap});
      }, "x"_a, "weight"_a, "softcap"_a)
      .def("finish", &NativeProgram::finish, "vocab"_a, "max_tokens"_a, "max_logit_rows"_a, "num_blocks"_a,
           "block_size"_a)
      .def("step", &step, "tokens"_a, "counts"_a, "starts"_a, "blocks"_a, "block_offsets"_a, "logit_rows"_a,
           "sampling"_a, "scores"_a = Ints{}, "Runs a step and samples; see _native.pyi for what it returns.")
      .def("step_logits", &step_logits, "tokens"_a, "counts"_a, "starts"_a, "blocks"_a, "block_offsets"_a,
           "logit_rows"_a, "Runs a step; returns raw float32 logits [logit rows, vocab].")
      .def_prop_ro("weight_bytes", &NativeProgram::weight_bytes)
      .def_prop_ro("weight_sizes", &NativeProgram::weight_sizes)
      .def_prop_ro("kv_bytes", &NativeProgram::kv_bytes)
      .def_prop_ro("threads", &NativeProgram::threads)
      .def_prop_ro("isa", [](const NativeProgram& self) { return std::string(isa_name(self.isa())); })
      .def_prop_ro("weight_formats", &NativeProgram::weight_formats)
      .def_prop_ro("weight_products", &NativeProgram::weight_products)
      .def("stage_seconds", [](const NativeProgram& self) {
        nb::dict seconds;
        const char* names[] = {"rows", "linear", "attention", "logits", "sampling"};
        for (int i = 0; i < 5; ++i) seconds[names[i]] = self.stage_seconds(i);
        return seconds;
      }, "Seconds spent so far, by kind of stage.")
      .def("profile", &NativeProgram::profile, "on"_a, "Times every stage from zero, or stops doing so.")
      .def("step_times", &step_times, "What the steps since profile(True) took; see _native.pyi.");
}

}  // namespace tenfold
