#include "sampling_edits.hpp"

#include <limits>

namespace tenfold {
namespace {

constexpr int32_t kSeen = 1 << 30;  // in a mark; the bits below count occurrences in the output

void penalize_repetition(float* logits, const int32_t* ids, int count, float penalty, int32_t* marks) {
  for (int i = 0; i < count; ++i) {
    if (marks[ids[i]] & kSeen) continue;
    marks[ids[i]] |= kSeen;
    float& logit = logits[ids[i]];
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
}

void penalize_output(float* logits, const SampleParams& params, int32_t* marks) {
  for (int i = 0; i < params.num_output; ++i) marks[params.output_ids[i]]++;
  for (int i = 0; i < params.num_output; ++i) {
    const int32_t id = params.output_ids[i], times = marks[id] & (kSeen - 1);
    if (!times) continue;
    marks[id] -= times;
    logits[id] -= params.frequency_penalty * float(times);
    logits[id] -= params.presence_penalty;
  }
}

}  // namespace

bool edit_logits(float* logits, int vocab, const SampleParams& params, std::vector<int32_t>& marks) {
  const bool repetition = params.repetition_penalty != 1.f && (params.num_prompt > 0 || params.num_output > 0);
  const bool output = (params.frequency_penalty != 0.f || params.presence_penalty != 0.f) && params.num_output > 0;
  for (int i = 0; i < params.num_banned; ++i) logits[params.banned_ids[i]] = -std::numeric_limits<float>::infinity();
  for (int i = 0; i < params.num_bias; ++i) logits[params.bias_ids[i]] += params.bias[i];
  if (!repetition && !output) return params.num_banned > 0 || params.num_bias > 0;

  if (int(marks.size()) < vocab) marks.resize(vocab, 0);
  if (repetition) {
    penalize_repetition(logits, params.prompt_ids, params.num_prompt, params.repetition_penalty, marks.data());
    penalize_repetition(logits, params.output_ids, params.num_output, params.repetition_penalty, marks.data());
  }
  if (output) penalize_output(logits, params, marks.data());
  if (repetition) {
    for (int i = 0; i < params.num_prompt; ++i) marks[params.prompt_ids[i]] = 0;
    for (int i = 0; i < params.num_output; ++i) marks[params.output_ids[i]] = 0;
  }
  return true;
}

}  // namespace tenfold
