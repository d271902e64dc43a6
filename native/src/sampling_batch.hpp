// The sampling parameters of a step's rows, as a struct of arrays.
#pragma once
#include <cstdint>
#include <vector>

#include "sampling.hpp"

namespace tenfold {

// Lists of differing lengths: row i has values offsets[i] to offsets[i + 1].
struct RaggedIds {
  std::vector<int32_t> values;
  std::vector<int64_t> offsets;
};

// Owns its data, so that what was checked stays so.
struct SamplingArrays {
  int count = 0;
  std::vector<float> floats;  // [count, 7]: temperature, top_p, min_p, typical_p, repetition, presence, frequency
  std::vector<int32_t> top_k, num_logprobs;
  std::vector<uint64_t> seed, draw;
  RaggedIds prompt, output, bias, banned;
  std::vector<float> bias_values;  // one a bias id
  std::vector<int32_t> mask_rows;  // [count]: the row's number among the masks, -1 for none; empty if all have none
  std::vector<uint32_t> masks;     // [num_masks, mask_words]: a bit a token
  int num_masks = 0, mask_words = 0;

  // Throws std::invalid_argument if lengths or offsets do not fit together or an id is negative; sets max_id.
  void check();
  // Throws std::invalid_argument if rows do not number the masks.
  void set_masks(std::vector<int32_t> rows, std::vector<uint32_t> words, int number, int width);
  // Throws std::invalid_argument if any id is not below vocab or masks have not a bit for each token. check() must have
  // run.
  void check_vocab(int vocab) const;

  int32_t max_id = -1;
};

// Parameters of row i, pointing into the arrays.
SampleParams row(const SamplingArrays& arrays, int i);

}  // namespace tenfold
