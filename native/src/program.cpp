#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "program_run.hpp"

namespace tenfold {

void NativeProgram::check_input(const StepInput& in) const {
  if (!finished_) throw std::logic_error("the program is not finished; call finish() first.");
  if (in.num_tokens <= 0 || in.num_tokens > max_tokens_)
    throw std::invalid_argument("a step takes 1 to " + std::to_string(max_tokens_) + " tokens.");
  int64_t rows = 0;
  for (int s = 0; s < in.num_sequences; ++s) {
    if (in.counts[s] <= 0 || in.starts[s] < 0) throw std::invalid_argument("a sequence has no rows or starts below 0.");
    const int64_t blocks = in.block_offsets[s + 1] - in.block_offsets[s];
    const int64_t end = static_cast<int64_t>(in.starts[s]) + in.counts[s];
    if (blocks * block_size_ < end) throw std::invalid_argument("a block table is too short for its sequence.");
    for (int64_t b = in.block_offsets[s]; b < in.block_offsets[s + 1]; ++b)
      if (in.blocks[b] < 0 || in.blocks[b] >= num_blocks_)
        throw std::invalid_argument("a block table names a block outside the cache.");
    rows += in.counts[s];
  }
  if (rows != in.num_tokens) throw std::invalid_argument("the sequences' rows do not add up to the step's tokens.");
  for (int i = 0; i < in.num_tokens; ++i)
    if (in.tokens[i] < 0 || in.tokens[i] >= vocab_)
      throw std::invalid_argument("token id " + std::to_string(in.tokens[i]) + " is outside the vocabulary.");
  for (int i = 0; i < in.num_logit_rows; ++i)
    if (in.logit_rows[i] < 0 || in.logit_rows[i] >= in.num_tokens)
      throw std::invalid_argument("a logits row is outside the step.");
  for (int i = 0; i < in.num_score_rows; ++i) {
    const ScoreRow& score = in.score_rows[i];
    if (score.row < 0 || score.row >= in.num_tokens || score.target < 0 || score.target >= vocab_ || score.most < 0)
      throw std::invalid_argument("a row to score is outside the step, or its token outside the vocabulary.");
  }
}

void NativeProgram::step(const StepInput& input, float* logits_out, const SampleParams* params, Sampled* sampled,
                         Scored* scored) {
  check_input(input);
  Run run{input, {}, {}, logits_out, params, sampled, scored};
  if (times_.on) {
    run_profiled(run);
    return;
  }
  prepare(run);
  for (const Stage& stage : stages_) run_stage(stage, run);
}

void NativeProgram::prepare(Run& run) {
  const StepInput& input = run.input;
  run.positions.reserve(input.num_tokens);
  for (int s = 0; s < input.num_sequences; ++s) {
    run.sequences.push_back({static_cast<int>(run.positions.size()), input.counts[s], input.starts[s],
                             input.blocks + input.block_offsets[s]});
    for (int i = 0; i < input.counts[s]; ++i) run.positions.push_back(input.starts[s] + i);
  }
  // Angles are float32 products, as the models were trained with; their cosines are computed in double.
  for (size_t t = 0; t < ropes_.size(); ++t) {
    const RopeTable& rope = ropes_[t];
    const int half = static_cast<int>(rope.inv_freq.size());
    auto fill = [&](int r, int) {
      float* cos = rope_rows_[t].get() + static_cast<size_t>(r) * 2 * half;
      for (int i = 0; i < half; ++i) {
        const double angle = static_cast<float>(run.positions[r]) * rope.inv_freq[i];
        cos[i] = static_cast<float>(std::cos(angle)) * rope.factor;
        cos[half + i] = static_cast<float>(std::sin(angle)) * rope.factor;
      }
    };
    if (input.num_tokens <= 2) for (int r = 0; r < input.num_tokens; ++r) fill(r, 0);
    else pool_.run(input.num_tokens, fill);
  }
  activations_.plan(run.input.num_tokens);
}

void NativeProgram::run_stage(const Stage& stage, Run& run) {
  if (const auto* rows = std::get_if<RowStage>(&stage)) run_rows(*rows, run);
  else if (const auto* linear = std::get_if<LinearStage>(&stage)) run_linear(*linear, run);
  else if (const auto* gated = std::get_if<GatedLinearStage>(&stage)) run_gated_linear(*gated, run);
  else if (const auto* attention = std::get_if<AttentionStage>(&stage)) run_attention(*attention, run);
  else run_logits(std::get<LogitsStage>(stage), run);
}

void NativeProgram::run_rows(const RowStage& stage, Run& run) {
  Timer timer(seconds_[0]);
  const int rows = run.input.num_tokens, chunk = rows_per_task(stage, rows);
  pool_.run((rows + chunk - 1) / chunk, [&](int task, int) {
    for (int r = task * chunk; r < std::min(rows, (task + 1) * chunk); ++r)
      for (const RowOp& op : stage.ops) run_row_op(op, r, run);
  });
}

// All rows, if they are not worth a dispatch: a single task runs on the calling thread.
int NativeProgram::rows_per_task(const RowStage& stage, int rows) const {
  if (static_cast<int64_t>(stage.cost) * rows < kSerialCost || pool_.size() == 1) return rows;
  return std::max(1, rows / (pool_.size() * kTasksPerThread));
}

void NativeProgram::run_row_op(const RowOp& op, int r, Run& run) {
  std::visit([&](const auto& o) { row(o, r, run); }, op);
}

void NativeProgram::row(const EmbedOp& op, int r, Run& run) {
  unpack_row(*weights_[op.weight], run.input.tokens[r], at(op.out, r));
  if (op.scale != 1.f) row_kernels_.scale(at(op.out, r), op.out.width, op.scale);
}

void NativeProgram::row(const RmsNormOp& op, int r, Run&) {
  const int n = op.head_dim > 0 ? op.head_dim : op.x.width;
  for (int start = 0; start < op.x.width; start += n)
    row_kernels_.rms_norm(at(op.x, r) + start, vectors_[op.vector].data(), op.eps, n, at(op.out, r) + start);
}

void NativeProgram::row(const RopeOp& op, int r, Run&) {
  const RopeTable& rope = ropes_[op.rope];
  const int half = static_cast<int>(rope.inv_freq.size());
  const float* cos = rope_rows_[op.rope].get() + static_cast<size_t>(r) * 2 * half;
  row_kernels_.rope(at(op.x, r), op.x.width / op.head_dim, op.head_dim, 2 * half, cos, cos + half, rope.interleaved);
}

void NativeProgram::row(const GatedOp& op, int r, Run&) {
  row_kernels_.gated(op.kind, at(op.gate, r), at(op.up, r), op.out.width, at(op.out, r));
}

void NativeProgram::row(const AddOp& op, int r, Run&) { row_kernels_.add(at(op.x, r), op.x.width, at(op.out, r)); }

void NativeProgram::row(const QuantizeOp& op, int r, Run&) {
  activations_.put(at(op.x, r), op.x.width, r, op.forms);
}

void NativeProgram::multiply(const std::vector<int>& weights, const std::vector<int>& biases, const Activations& x,
                             float* y, int ld, bool add) {
  const int tiles = static_cast<int>(x.tiles->size());
  int panels = 0;
  for (int w : weights) panels += weight_panels(*weights_[w]);
  // Panels go in twos, as AMX takes them.
  pool_.run_shares((panels + 1) / 2, [&](int first_pair, int end_pair, int) {
    const int begin = 2 * first_pair, end = std::min(panels, 2 * end_pair);
    int first = 0, column = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      const PackedWeight& w = *weights_[weights[i]];
      const int count = weight_panels(w), from = std::max(begin, first), to = std::min(end, first + count);
      if (from < to) {
        const LinearOut out{y + column, ld, biases[i] >= 0 ? vectors_[biases[i]].data() : nullptr, add};
        linear_kernels_.multiply(w, x, 0, tiles, from - first, to - first, out);
      }
      first += count;
      column += weight_rows(w);
    }
  });
}

void NativeProgram::run_linear(const LinearStage& stage, Run& run) {
  Timer timer(seconds_[1]);
  multiply(stage.weights, stage.biases, activations_.view(stage.x.width), at(stage.out, 0), widths_[stage.out.buffer],
           stage.add);
}

// A thread computes some columns of gate and up and joins them while they are in its caches. Returns what products and
// joining took on all threads together, in ticks of the clock; never 0.
std::vector<double> NativeProgram::run_gated_linear(const GatedLinearStage& stage, Run& run) {
  Timer timer(seconds_[1]);
  const LinearStage& linear = stage.linear;
  const Activations x = activations_.view(linear.x.width);
  const int rows = run.input.num_tokens, tiles = static_cast<int>(x.tiles->size()), n = stage.gated.out.width;
  const int panels = weight_panels(*weights_[linear.weights[0]]);
  const int most = std::max(2, static_cast<int>(kGatedFloats / (2 * kPanel * static_cast<size_t>(rows))) / 2 * 2);
  std::vector<double> spent(2 * pool_.size(), 1.0);
  pool_.run_shares((panels + 1) / 2, [&](int first_pair, int end_pair, int thread) {
    float* scratch = gated_scratch_[thread].get();
    const int end = std::min(panels, 2 * end_pair);
    for (int begin = 2 * first_pair, next; begin < end; begin = next) {
      next = std::min(end, begin + most);
      const int column = begin * kPanel, columns = std::min(n, next * kPanel) - column;
      const auto start = Clock::now();
      for (int i = 0; i < 2; ++i) {
        const int bias = linear.biases[i];
        const LinearOut out{scratch + i * columns - column, 2 * columns, bias >= 0 ? vectors_[bias].data() : nullptr, false};
        linear_kernels_.multiply(*weights_[linear.weights[i]], x, 0, tiles, begin, next, out);
      }
      const auto multiplied = Clock::now();
      for (int r = 0; r < rows; ++r) {
        const float* gate = scratch + static_cast<size_t>(r) * 2 * columns;
        row_kernels_.gated(stage.gated.kind, gate, gate + columns, columns, at(stage.gated.out, r) + column);
      }
      spent[2 * thread] += static_cast<double>((multiplied - start).count());
      spent[2 * thread + 1] += static_cast<double>((Clock::now() - multiplied).count());
    }
  });
  for (int thread = 1; thread < pool_.size(); ++thread)
    for (int i = 0; i < 2; ++i) spent[i] += spent[2 * thread + i];
  spent.resize(2);
  return spent;
}

void NativeProgram::run_attention(const AttentionStage& stage, Run& run) {
  Timer timer(seconds_[2]);
  AttentionCall call{};
  call.geometry = layer_geometry_[stage.layer];
  call.cache = kv_.get() + layer_offset_[stage.layer];
  call.q = at(stage.q, 0);
  call.q_ld = widths_[stage.q.buffer];
  call.k = at(stage.k, 0);
  call.k_ld = widths_[stage.k.buffer];
  call.v = at(stage.v, 0);
  call.v_ld = widths_[stage.v.buffer];
  call.out = at(stage.out, 0);
  call.out_ld = widths_[stage.out.buffer];
  call.num_heads = stage.num_heads;
  call.scale = stage.scale;
  call.window = stage.window;
  call.sequences = run.sequences.data();
  call.num_sequences = static_cast<int>(run.sequences.size());
  tenfold::attention(isa_, call, attention_scratch_, pool_);
}

// Rows to score come after the rows to sample, so that a step reads the weight as seldom as it can.
void NativeProgram::run_logits(const LogitsStage& stage, Run& run) {
  const StepInput& in = run.input;
  const std::vector<int> weights{stage.weight}, biases{-1};
  const Form form = weight_form(linear_kernels_, *weights_[stage.weight]);
  const int total = in.num_logit_rows + in.num_score_rows;
  for (int begin = 0; begin < total; begin += max_logit_rows_) {
    const int rows = std::min(max_logit_rows_, total - begin);
    {
      Timer timer(seconds_[3]);
      logit_activations_.plan(rows);
      for (int i = 0; i < rows; ++i) {
        const int n = begin + i - in.num_logit_rows;
        const int row = n < 0 ? in.logit_rows[begin + i] : in.score_rows[n].row;
        logit_activations_.put(at(stage.x, row), stage.x.width, i, form);
      }
      multiply(weights, biases, logit_activations_.view(stage.x.width), logits_.get(), vocab_, false);
      if (stage.softcap > 0.f)
        pool_.run(rows, [&](int i, int) {
          row_kernels_.softcap(logits_.get() + static_cast<size_t>(i) * vocab_, vocab_, stage.softcap);
        });
      const int wanted = std::min(rows, in.num_logit_rows - begin);
      if (run.logits_out != nullptr && wanted > 0)
        std::memcpy(run.logits_out + static_cast<size_t>(begin) * vocab_, logits_.get(),
                    static_cast<size_t>(wanted) * vocab_ * sizeof(float));
    }
    Timer timer(seconds_[4]);
    pool_.run(rows, [&](int i, int thread) {
      float* logits = logits_.get() + static_cast<size_t>(i) * vocab_;
      SampleScratch& scratch = *sample_scratch_[thread];
      const int n = begin + i - in.num_logit_rows;
      if (n >= 0)
        score_row(isa_, logits, vocab_, in.score_rows[n].target, in.score_rows[n].most, scratch, run.scored[n]);
      else if (run.params != nullptr)
        sample_row(isa_, logits, vocab_, run.params[begin + i], scratch, run.sampled[begin + i]);
    });
  }
}

}  // namespace tenfold
