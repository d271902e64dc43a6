// The native interpreter: one call runs a whole Program for one engine step on the resident thread pool.
//
// Ops that look at one row at a time are gathered into row stages, so that a stage costs one dispatch; linears and
// attention are stages of their own. Activations are quantized once and shared by every linear that reads them.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "activations.hpp"
#include "aligned.hpp"
#include "attention.hpp"
#include "isa.hpp"
#include "linear.hpp"
#include "pool.hpp"
#include "rows.hpp"
#include "sampling.hpp"

namespace tenfold {

struct View { int buffer = -1, start = 0, width = 0; };

struct EmbedOp { View out; int weight; float scale; };
struct RmsNormOp { View x, out; int vector; float eps; int head_dim; };
struct RopeOp { View x; int head_dim, rope; };
struct GatedOp { View gate, up, out; Gate kind; };
struct AddOp { View x, out; };
struct QuantizeOp { View x; unsigned forms; };
using RowOp = std::variant<EmbedOp, RmsNormOp, RopeOp, GatedOp, AddOp, QuantizeOp>;

// `number` is the op's place in the Program; numbers[i] that of the op for which ops[i] works.
struct RowStage { std::vector<RowOp> ops; std::vector<int> numbers; int cost = 0; };
struct LinearStage { View x, out; std::vector<int> weights, biases; bool add; int number = -1; };
// A linear of two weights and the gated activation of what they give, which itself is not kept.
struct GatedLinearStage { LinearStage linear; GatedOp gated; int number = -1; };
struct AttentionStage {
  View q, k, v, out;
  int layer, num_heads, num_kv_heads, head_dim;
  float scale;
  int window, number = -1;
};
struct LogitsStage { View x; int weight; float softcap; int number = -1; };
using Stage = std::variant<RowStage, LinearStage, AttentionStage, LogitsStage, GatedLinearStage>;

struct RopeTable { std::vector<float> inv_freq; float factor; bool interleaved; };

// Where profiled steps spent their time, in seconds summed over the steps. `parts` has one entry an op of a row stage
// (including quantizing for a linear, which no op of the Program stands for), and one for other stages.
struct PartTime { int number = -1; bool quantize = false; double seconds = 0; };
struct StageTime { int kind = 0; double seconds = 0; std::vector<PartTime> parts; };
struct StepTimes {
  bool on = false;
  int64_t steps = 0;
  double seconds = 0, prepare = 0, sampling = 0;  // whole steps; of them, before the first stage; picking tokens
  std::vector<StageTime> stages;
};

// A row of a step whose logits say how likely a given token was, and how many of the likeliest to name.
struct ScoreRow { int32_t row, target, most; };

// One step's work, as arrays. Row r of the step belongs to the sequence whose range covers it.
struct StepInput {
  const int32_t* tokens; int num_tokens;
  const int32_t* counts;          // [num_sequences] rows of each sequence, in order
  const int32_t* starts;          // [num_sequences] position of its first row
  const int32_t* blocks;          // block tables, one after the other
  const int64_t* block_offsets;   // [num_sequences + 1]
  int num_sequences;
  const int32_t* logit_rows; int num_logit_rows;
  const ScoreRow* score_rows = nullptr; int num_score_rows = 0;
};

class NativeProgram {
 public:
  NativeProgram(Isa isa, int threads);

  int add_buffer(int width);
  int add_weight(int ggml_type, const uint8_t* data, size_t bytes, int n, int k);
  int add_vector(std::vector<float> values);
  int add_rope(RopeTable table);

  void embed(EmbedOp op);
  void rms_norm(RmsNormOp op);
  void rope(RopeOp op);
  // `alone`: no other op reads gate and up, so that they need not be kept.
  void gated(GatedOp op, bool alone);
  void add(AddOp op);
  void linear(LinearStage stage);
  void attention(AttentionStage stage);
  void logits(LogitsStage stage);

  // Allocates buffers for max_tokens rows and max_logit_rows rows of logits, and the KV cache.
  void finish(int vocab, int max_tokens, int max_logit_rows, int num_blocks, int block_size);

  // Runs a step. `logits_out` ([num_logit_rows][vocab]) and `params`/`sampled` ([num_logit_rows]) may be null, and
  // `scored` ([num_score_rows]) when there are none.
  void step(const StepInput& input, float* logits_out, const SampleParams* params, Sampled* sampled,
            Scored* scored = nullptr);

  int vocab() const { return vocab_; }
  Isa isa() const { return isa_; }
  int threads() const { return pool_.size(); }
  size_t weight_bytes() const;
  std::vector<size_t> weight_sizes() const;  // of each matrix, in the order in which they were added
  size_t kv_bytes() const { return kv_.bytes(); }
  std::vector<std::string> weight_formats() const;
  std::vector<std::string> weight_products() const;  // "int8" or "bf16": what products are made in, likewise
  double stage_seconds(int kind) const { return seconds_[kind]; }  // 0 rows, 1 linear, 2 attention, 3 logits, 4 sampling

  // Times each stage, and each op within row stages, from zero; or stops doing so. Costs two clock reads a stage.
  void profile(bool on);
  StepTimes step_times() const { return times_; }

 private:
  struct Run;  // what one step knows

  void check(const View& view) const;
  void push_row(RowOp op, int cost, int number);
  void wrote(int buffer);
  bool gives(const LinearStage& linear, const View& first, const View& second) const;
  void want_activations(const View& x, unsigned forms, int number);
  void check_input(const StepInput& input) const;
  void prepare(Run& run);
  void run_stage(const Stage& stage, Run& run);
  void run_profiled(Run& run);
  void run_rows(const RowStage& stage, Run& run);
  int rows_per_task(const RowStage& stage, int rows) const;
  std::vector<double> run_rows_by_op(const RowStage& stage, Run& run);
  void run_row_op(const RowOp& op, int r, Run& run);
  void run_linear(const LinearStage& stage, Run& run);
  std::vector<double> run_gated_linear(const GatedLinearStage& stage, Run& run);
  void run_attention(const AttentionStage& stage, Run& run);
  void run_logits(const LogitsStage& stage, Run& run);
  void row(const EmbedOp& op, int r, Run& run);
  void row(const RmsNormOp& op, int r, Run& run);
  void row(const RopeOp& op, int r, Run& run);
  void row(const GatedOp& op, int r, Run& run);
  void row(const AddOp& op, int r, Run& run);
  void row(const QuantizeOp& op, int r, Run& run);
  void multiply(const std::vector<int>& weights, const std::vector<int>& biases, const Activations& x, float* y, int ld,
                bool add);
  float* at(const View& view, int row) {
    return buffers_[view.buffer].get() + static_cast<size_t>(row) * widths_[view.buffer] + view.start;
  }

  Isa isa_;
  ThreadPool pool_;
  const LinearKernels& linear_kernels_;
  const RowKernels& row_kernels_;
  std::vector<int> widths_;
  std::vector<AlignedArray<float>> buffers_;
  std::vector<std::shared_ptr<const PackedWeight>> weights_;
  std::vector<std::vector<float>> vectors_;
  std::vector<RopeTable> ropes_;
  std::vector<AlignedArray<float>> rope_rows_;  // cos then sin of each row of the step, one array a table
  std::vector<Stage> stages_;
  View held_;                                   // which view the activations hold while building
  unsigned held_forms_ = 0;
  int activation_width_ = 0, logit_activation_width_ = 0;  // widest rows
  unsigned activation_forms_ = 0, logit_activation_forms_ = 0;
  ActivationStore activations_, logit_activations_;
  std::vector<AlignedArray<float>> gated_scratch_;  // one a thread
  AlignedArray<float> logits_;
  AlignedArray<uint16_t> kv_;
  std::vector<size_t> layer_offset_;
  std::vector<KvGeometry> layer_geometry_;
  AttentionScratch attention_scratch_;
  std::vector<std::unique_ptr<SampleScratch>> sample_scratch_;
  int vocab_ = 0, max_tokens_ = 0, max_logit_rows_ = 0, num_blocks_ = 0, block_size_ = 0;
  bool finished_ = false;
  int num_ops_ = 0;
  double seconds_[5] = {0, 0, 0, 0, 0};
  StepTimes times_;
};

}  // namespace tenfold
