// Building a NativeProgram: ops come in order, row ops gather into stages, activations are quantized where needed.
#include <algorithm>
#include <stdexcept>

#include "program_run.hpp"

namespace tenfold {

NativeProgram::NativeProgram(Isa isa, int threads)
    : isa_(isa), pool_(threads), linear_kernels_(linear_kernels(isa)), row_kernels_(row_kernels(isa)) {
  for (int i = 0; i < pool_.size(); ++i) sample_scratch_.push_back(std::make_unique<SampleScratch>());
}

int NativeProgram::add_buffer(int width) {
  if (width <= 0) throw std::invalid_argument("a buffer's width must be positive.");
  widths_.push_back(width);
  return static_cast<int>(widths_.size()) - 1;
}

int NativeProgram::add_weight(int ggml_type, const uint8_t* data, size_t bytes, int n, int k) {
  weights_.push_back(pack_weight(ggml_type, data, bytes, n, k, pool_));
  return static_cast<int>(weights_.size()) - 1;
}

int NativeProgram::add_vector(std::vector<float> values) {
  vectors_.push_back(std::move(values));
  return static_cast<int>(vectors_.size()) - 1;
}

int NativeProgram::add_rope(RopeTable table) {
  ropes_.push_back(std::move(table));
  return static_cast<int>(ropes_.size()) - 1;
}

void NativeProgram::check(const View& view) const {
  if (finished_) throw std::logic_error("the program is finished; no op can be added.");
  if (view.buffer < 0 || view.buffer >= static_cast<int>(widths_.size()) || view.start < 0 || view.width <= 0 ||
      view.start + view.width > widths_[view.buffer])
    throw std::invalid_argument("a view names a buffer or columns that do not exist.");
}

void NativeProgram::push_row(RowOp op, int cost, int number) {
  if (stages_.empty() || !std::holds_alternative<RowStage>(stages_.back())) stages_.emplace_back(RowStage{});
  RowStage& stage = std::get<RowStage>(stages_.back());
  stage.ops.push_back(op);
  stage.numbers.push_back(number);
  stage.cost += cost;
}

void NativeProgram::wrote(int buffer) {
  if (held_.buffer == buffer) held_ = View{};
}

// Whether a linear's weights give just these two views, one each.
bool NativeProgram::gives(const LinearStage& linear, const View& first, const View& second) const {
  return linear.weights.size() == 2 && !linear.add && linear.out.buffer == first.buffer &&
         first.buffer == second.buffer && linear.out.start == first.start &&
         first.start + first.width == second.start && linear.out.width == first.width + second.width &&
         weight_rows(*weights_[linear.weights[0]]) == first.width;
}

void NativeProgram::embed(EmbedOp op) {
  check(op.out);
  if (weight_columns(*weights_.at(op.weight)) != op.out.width)
    throw std::invalid_argument("embed: the weight's width is not the buffer's.");
  push_row(op, op.out.width, num_ops_++);
  wrote(op.out.buffer);
}

void NativeProgram::rms_norm(RmsNormOp op) {
  check(op.x);
  check(op.out);
  const int n = op.head_dim > 0 ? op.head_dim : op.x.width;
  if (op.x.width != op.out.width || op.x.width % n != 0 || static_cast<int>(vectors_.at(op.vector).size()) != n)
    throw std::invalid_argument("rms_norm: widths do not agree.");
  push_row(op, op.x.width, num_ops_++);
  wrote(op.out.buffer);
}

void NativeProgram::rope(RopeOp op) {
  check(op.x);
  const int rotary_dim = 2 * static_cast<int>(ropes_.at(op.rope).inv_freq.size());
  if (op.head_dim <= 0 || op.x.width % op.head_dim != 0 || rotary_dim > op.head_dim)
    throw std::invalid_argument("rope: head and rotary sizes do not agree.");
  push_row(op, op.x.width, num_ops_++);
  wrote(op.x.buffer);
}

void NativeProgram::gated(GatedOp op, bool alone) {
  check(op.gate);
  check(op.up);
  check(op.out);
  if (op.gate.width != op.up.width || op.gate.width != op.out.width)
    throw std::invalid_argument("gated_activation: widths do not agree.");
  auto* linear = stages_.empty() ? nullptr : std::get_if<LinearStage>(&stages_.back());
  if (alone && linear != nullptr && gives(*linear, op.gate, op.up)) {
    GatedLinearStage both{std::move(*linear), op, num_ops_++};
    stages_.back() = std::move(both);
  } else {
    push_row(op, 4 * op.gate.width, num_ops_++);
  }
  wrote(op.out.buffer);
}

void NativeProgram::add(AddOp op) {
  check(op.x);
  check(op.out);
  if (op.x.width != op.out.width) throw std::invalid_argument("add: widths do not agree.");
  push_row(op, op.x.width, num_ops_++);
  wrote(op.out.buffer);
}

void NativeProgram::want_activations(const View& x, unsigned forms, int number) {
  const bool same = held_.buffer == x.buffer && held_.start == x.start && held_.width == x.width;
  const unsigned missing = same ? forms & ~held_forms_ : forms;
  if (missing == 0) return;
  push_row(QuantizeOp{x, missing}, 2 * x.width, number);
  held_forms_ = same ? held_forms_ | missing : missing;
  held_ = x;
  activation_width_ = std::max(activation_width_, x.width);
  activation_forms_ |= forms;
}

void NativeProgram::linear(LinearStage stage) {
  check(stage.x);
  check(stage.out);
  if (stage.x.buffer == stage.out.buffer) throw std::invalid_argument("linear: x and out share a buffer.");
  unsigned forms = 0;
  int n = 0;
  for (size_t i = 0; i < stage.weights.size(); ++i) {
    const PackedWeight& w = *weights_.at(stage.weights[i]);
    if (weight_columns(w) != stage.x.width) throw std::invalid_argument("linear: a weight's width is not x's.");
    forms |= weight_form(linear_kernels_, w);
    n += weight_rows(w);
    const int bias = stage.biases.at(i);
    if (bias >= 0 && static_cast<int>(vectors_.at(bias).size()) != weight_rows(w))
      throw std::invalid_argument("linear: a bias is not as long as its weight has rows.");
  }
  if (n != stage.out.width) throw std::invalid_argument("linear: the weights' rows do not fill out.");
  stage.number = num_ops_++;
  want_activations(stage.x, forms, stage.number);
  wrote(stage.out.buffer);
  stages_.emplace_back(std::move(stage));
}

void NativeProgram::attention(AttentionStage stage) {
  for (const View* view : {&stage.q, &stage.k, &stage.v, &stage.out}) check(*view);
  const int d = stage.head_dim;
  if (stage.num_kv_heads <= 0 || stage.num_heads % stage.num_kv_heads != 0 || stage.q.width != stage.num_heads * d ||
      stage.out.width != stage.q.width || stage.k.width != stage.num_kv_heads * d || stage.v.width != stage.k.width)
    throw std::invalid_argument("attention: head counts and widths do not agree.");
  if (stage.layer != static_cast<int>(layer_geometry_.size()))
    throw std::invalid_argument("attention: layers must come in order, from 0.");
  layer_geometry_.push_back(KvGeometry{stage.num_kv_heads, d, 0});
  stage.number = num_ops_++;
  wrote(stage.out.buffer);
  stages_.emplace_back(stage);
}

void NativeProgram::logits(LogitsStage stage) {
  check(stage.x);
  const PackedWeight& w = *weights_.at(stage.weight);
  if (weight_columns(w) != stage.x.width) throw std::invalid_argument("logits: the weight's width is not x's.");
  logit_activation_width_ = std::max(logit_activation_width_, stage.x.width);
  logit_activation_forms_ |= weight_form(linear_kernels_, w);
  vocab_ = weight_rows(w);
  stage.number = num_ops_++;
  stages_.emplace_back(stage);
}

void NativeProgram::finish(int vocab, int max_tokens, int max_logit_rows, int num_blocks, int block_size) {
  if (finished_) throw std::logic_error("the program is finished already.");
  if (vocab != vocab_) throw std::invalid_argument("the logits' weight has not as many rows as the vocabulary.");
  if (max_tokens <= 0 || max_logit_rows <= 0 || num_blocks <= 0 || block_size <= 0 || block_size % 16 != 0)
    throw std::invalid_argument("max_tokens, max_logit_rows and num_blocks must be positive, block_size a multiple of 16.");
  max_tokens_ = max_tokens;
  max_logit_rows_ = max_logit_rows;
  num_blocks_ = num_blocks;
  block_size_ = block_size;
  for (int width : widths_) buffers_.emplace_back(static_cast<size_t>(width) * max_tokens);
  for (const RopeTable& rope : ropes_) rope_rows_.emplace_back(2 * rope.inv_freq.size() * max_tokens);
  activations_ = ActivationStore(linear_kernels_, max_tokens, activation_width_, activation_forms_);
  logit_activations_ =
      ActivationStore(linear_kernels_, max_logit_rows, logit_activation_width_, logit_activation_forms_, kLogitOutlierAbove);
  const auto joins = [](const Stage& stage) { return std::holds_alternative<GatedLinearStage>(stage); };
  if (std::any_of(stages_.begin(), stages_.end(), joins))
    for (int i = 0; i < pool_.size(); ++i)
      gated_scratch_.emplace_back(std::max(kGatedFloats, size_t{4} * kPanel * static_cast<size_t>(max_tokens)));
  logits_ = AlignedArray<float>(static_cast<size_t>(max_logit_rows) * vocab_);
  size_t elements = 0;
  for (KvGeometry& geometry : layer_geometry_) {
    geometry.block_size = block_size;
    layer_offset_.push_back(elements);
    elements += kv_block_elements(geometry) * static_cast<size_t>(num_blocks);
  }
  kv_ = AlignedArray<uint16_t>(elements);
  finished_ = true;
}

size_t NativeProgram::weight_bytes() const {
  size_t bytes = 0;
  for (const auto& weight : weights_) bytes += tenfold::weight_bytes(*weight);
  for (const auto& vector : vectors_) bytes += vector.size() * sizeof(float);
  return bytes;
}

std::vector<size_t> NativeProgram::weight_sizes() const {
  std::vector<size_t> sizes;
  for (const auto& weight : weights_) sizes.push_back(tenfold::weight_bytes(*weight));
  return sizes;
}

std::vector<std::string> NativeProgram::weight_products() const {
  std::vector<std::string> names;
  for (const auto& weight : weights_)
    names.emplace_back((weight_form(linear_kernels_, *weight) & (kHalves | kQuads)) != 0 ? "bf16" : "int8");
  return names;
}

std::vector<std::string> NativeProgram::weight_formats() const {
  std::vector<std::string> names;
  for (const auto& weight : weights_) names.emplace_back(weight_format(*weight));
  return names;
}

}  // namespace tenfold
