#include "sampling.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <utility>

#include "sampling_candidates.hpp"
#include "sampling_edits.hpp"
#include "sampling_kernels.hpp"
#include "sampling_random.hpp"

namespace tenfold {

struct SampleScratch::State {
  std::vector<int32_t> marks;
  std::vector<float> raw;
  std::vector<double> block_sums;
  std::vector<std::pair<float, int32_t>> top;
  Candidates candidates;
};

SampleScratch::SampleScratch() : state_(std::make_unique<State>()) {}
SampleScratch::~SampleScratch() = default;

namespace {

constexpr float kGreedyBelow = 1e-5f;  // vLLM's bound; above it 1 / temperature is far from overflow

// NaN to -inf, +inf to the largest float; returns the row's extent.
RowExtent clean(const SampleKernels& kernels, float* logits, int vocab) {
  RowExtent extent = kernels.scan(logits, vocab);
  if (!extent.abnormal) return extent;
  for (int i = 0; i < vocab; ++i) {
    if (std::isnan(logits[i])) logits[i] = -HUGE_VALF;
    else if (logits[i] > FLT_MAX) logits[i] = FLT_MAX;
  }
  return kernels.scan(logits, vocab);
}

double exponentials(const SampleKernels& kernels, const float* x, int n, float max, float factor, float* weights,
                    std::vector<double>& block_sums) {
  block_sums.resize((n + kSumBlock - 1) / kSumBlock);
  kernels.exponentials(x, n, max, factor, weights, block_sums.data());
  double total = 0;
  for (double sum : block_sums) total += sum;
  return total;
}

// Never infinite, so that it can be written as JSON.
float logprob(float logit, double log_total) { return float(std::max(double(logit) - log_total, double(-FLT_MAX))); }

// The `most` largest logits, best first, lower ids first among equals. Result is Sampled or Scored.
template <class Result>
void find_top(const SampleKernels& kernels, const float* logits, int vocab, int most, double log_total,
              std::vector<std::pair<float, int32_t>>& heap, Result& out) {
  const auto better = [](const std::pair<float, int32_t>& a, const std::pair<float, int32_t>& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  heap.clear();
  float bound = -HUGE_VALF;
  for (int i = 0; most > 0 && (i = kernels.find_above(logits, i, vocab, bound)) < vocab; ++i) {
    if (int(heap.size()) == most) {
      std::pop_heap(heap.begin(), heap.end(), better);
      heap.pop_back();
    }
    heap.emplace_back(logits[i], i);
    std::push_heap(heap.begin(), heap.end(), better);
    if (int(heap.size()) == most) bound = heap.front().first;
  }
  std::sort_heap(heap.begin(), heap.end(), better);
  for (const auto& [logit, id] : heap) {
    out.top_ids.push_back(id);
    out.top_logprobs.push_back(logprob(logit, log_total));
  }
}

double log_of_total(const SampleKernels& kernels, const float* logits, int vocab, float max,
                    std::vector<double>& block_sums) {
  return max + std::log(exponentials(kernels, logits, vocab, max, 1.f, nullptr, block_sums));
}

// The inverse of the distribution function over the whole vocabulary, in order of id.
int32_t pick_any(const float* weights, int vocab, const std::vector<double>& block_sums, double target) {
  double reached = 0;
  size_t block = 0;
  for (; block + 1 < block_sums.size() && reached + block_sums[block] <= target; ++block) reached += block_sums[block];
  int32_t last = -1;
  const int start = int(block) * kSumBlock, end = std::min(vocab, start + kSumBlock);
  for (int i = start; i < end; ++i) {
    if (weights[i] == 0) continue;
    last = i;
    reached += weights[i];
    if (reached > target) return i;
  }
  for (int i = start - 1; last < 0 && i >= 0; --i)  // rounding led past the last possible token
    if (weights[i] > 0) last = i;
  return last;
}

// Gathers a superset of what top_k, if above 0, or else top_p keeps: what is above the highest bound that suffices.
void gather_likely(const SampleKernels& kernels, const float* weights, int vocab, int top_k, double mass_needed,
                   Candidates& candidates) {
  for (float least : {0x1p-7f, 0x1p-11f, 0x1p-16f}) {
    const Tally tally = kernels.tally(weights, weights, vocab, least);
    if (top_k > 0 ? tally.count >= top_k : tally.mass >= mass_needed)
      return candidates.gather(kernels, weights, vocab, least);
  }
  candidates.gather(kernels, weights, vocab, FLT_MIN);
}

int32_t draw(const SampleKernels& kernels, float* logits, int vocab, float max, const SampleParams& params,
             SampleScratch::State& state) {
  const bool top_k = params.top_k > 0 && params.top_k < vocab;
  const bool top_p = params.top_p < 1.f, min_p = params.min_p > 0.f, typical = params.typical_p < 1.f;
  const double total =
      exponentials(kernels, logits, vocab, max, 1.f / params.temperature, logits, state.block_sums);
  const double u = uniform(params.seed, params.draw);
  if (!(top_k || top_p || min_p || typical)) return pick_any(logits, vocab, state.block_sums, u * total);

  Candidates& candidates = state.candidates;
  if (min_p || typical)
    candidates.gather(kernels, logits, vocab, std::min(1.f, std::max(params.min_p, FLT_MIN)));
  else
    gather_likely(kernels, logits, vocab, top_k ? params.top_k : 0, double(params.top_p) * total, candidates);
  if (typical) candidates.keep_typical(kernels, params.typical_p);
  if (top_k) candidates.keep_top_k(kernels, params.top_k);
  // Alone, top_p counts the mass that was not gathered too.
  if (top_p) candidates.keep_top_p(kernels, params.top_p, top_k || min_p || typical ? candidates.mass() : total);
  return candidates.pick(u);
}

}  // namespace

void sample_row(Isa isa, float* logits, int vocab, const SampleParams& params, SampleScratch& scratch, Sampled& out) {
  const SampleKernels& kernels = sample_kernels(isa);
  SampleScratch::State& state = scratch.state();
  out.token = -1;
  out.logprob = 0.f;
  out.top_ids.clear();
  out.top_logprobs.clear();

  RowExtent extent = clean(kernels, logits, vocab);
  if (extent.index < 0) return;
  const bool logprobs = params.num_logprobs >= 0;
  double log_total = 0;
  if (logprobs) {
    log_total = log_of_total(kernels, logits, vocab, extent.max, state.block_sums);
    find_top(kernels, logits, vocab, params.num_logprobs, log_total, state.top, out);
    state.raw.assign(logits, logits + vocab);
  }
  if (params.mask != nullptr) kernels.mask(logits, vocab, params.mask);
  if (edit_logits(logits, vocab, params, state.marks) || params.mask != nullptr) extent = clean(kernels, logits, vocab);
  if (extent.index < 0) return;

  const bool greedy = !(params.temperature >= kGreedyBelow) || (params.top_k == 1 && params.typical_p >= 1.f);
  out.token = greedy ? extent.index : draw(kernels, logits, vocab, extent.max, params, state);
  if (logprobs) out.logprob = logprob(state.raw[out.token], log_total);
}

void score_row(Isa isa, float* logits, int vocab, int32_t target, int32_t most, SampleScratch& scratch, Scored& out) {
  const SampleKernels& kernels = sample_kernels(isa);
  SampleScratch::State& state = scratch.state();
  out.logprob = -FLT_MAX;
  out.rank = 0;
  out.top_ids.clear();
  out.top_logprobs.clear();

  const RowExtent extent = clean(kernels, logits, vocab);
  if (extent.index < 0) return;
  const double log_total = log_of_total(kernels, logits, vocab, extent.max, state.block_sums);
  find_top(kernels, logits, vocab, most, log_total, state.top, out);
  out.logprob = logprob(logits[target], log_total);
  out.rank = kernels.tally(logits, logits, vocab, logits[target]).count;
}

}  // namespace tenfold
