// Picking tokens from logits. A row's result depends on its own logits and parameters only: the same bits on every
// instruction set, in every batch, on every thread.
//
// The order is vLLM's (v1 sampler), with typical_p, which vLLM lacks, after min_p:
//   1. log probabilities of the raw logits, if asked for
//   2. tokens outside the mask and banned ids to -inf, then logit_bias
//   3. repetition penalty (prompt and output: positive logits divided, others multiplied),
//      then frequency and presence penalties (output only)
//   4. temperature below 1e-5: the largest logit, the lowest id among equals; else divide by temperature
//   5. min_p, typical_p, top_k, top_p, each over what the one before left
//   6. one uniform number of (seed, draw), inverted over the kept tokens in order of id
// top_k keeps exactly k tokens and top_p the fewest that reach its mass; among equals lower ids come first.
// NaN logits count as -inf, +inf as the largest float.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "isa.hpp"

namespace tenfold {

// Parameters of one row; pointers stay valid during the call.
struct SampleParams {
  float temperature = 0.f, top_p = 1.f, min_p = 0.f, typical_p = 1.f;
  float repetition_penalty = 1.f, presence_penalty = 0.f, frequency_penalty = 0.f;
  int32_t top_k = 0;               // <= 0: all
  uint64_t seed = 0;
  uint64_t draw = 0;               // number of tokens this sequence has drawn before: the random stream's position
  int32_t num_logprobs = -1;       // -1: none; else how many top entries
  const int32_t* prompt_ids = nullptr; int32_t num_prompt = 0;    // for penalties
  const int32_t* output_ids = nullptr; int32_t num_output = 0;
  const int32_t* bias_ids = nullptr; const float* bias = nullptr; int32_t num_bias = 0;
  const int32_t* banned_ids = nullptr; int32_t num_banned = 0;    // end tokens while below min_tokens
  const uint32_t* mask = nullptr;  // bit i % 32 of word i / 32 is set where token i may be picked; null: all may
};

struct Sampled {
  int32_t token = -1;              // -1: every logit was NaN or -inf
  float logprob = 0.f;             // natural log, from the raw logits; 0 if not asked for
  std::vector<int32_t> top_ids;    // best first; tokens at -inf are left out
  std::vector<float> top_logprobs;
};

// How likely a given token was, before anything but the model's own logits had a say.
struct Scored {
  float logprob = 0.f;             // natural log
  int32_t rank = 0;                // how many tokens are at least as likely, itself included; 0: no logit was finite
  std::vector<int32_t> top_ids;    // as in Sampled
  std::vector<float> top_logprobs;
};

// Scratch of one thread.
class SampleScratch {
 public:
  SampleScratch();
  ~SampleScratch();
  struct State;
  State& state() { return *state_; }
 private:
  std::unique_ptr<State> state_;
};

// `logits` is overwritten.
void sample_row(Isa isa, float* logits, int vocab, const SampleParams& params, SampleScratch& scratch, Sampled& out);

// Scores `target` in [0, vocab) and finds the `most` likeliest tokens; the bits are those of sample_row's log
// probabilities. NaN and infinite logits are overwritten.
void score_row(Isa isa, float* logits, int vocab, int32_t target, int32_t most, SampleScratch& scratch, Scored& out);

}  // namespace tenfold
