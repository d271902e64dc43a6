#include "sampling_batch.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace tenfold {
namespace {

constexpr int kFloats = 7;

void check_length(const char* name, size_t length, size_t expected) {
  if (length != expected)
    throw std::invalid_argument(std::string(name) + " has " + std::to_string(length) + " entries; expected " +
                                std::to_string(expected) + ".");
}

int32_t check_ragged(const char* name, const RaggedIds& ids, int count) {
  check_length((std::string(name) + " offsets").c_str(), ids.offsets.size(), size_t(count) + 1);
  if (ids.offsets.front() != 0 || ids.offsets.back() != int64_t(ids.values.size()) ||
      !std::is_sorted(ids.offsets.begin(), ids.offsets.end()))
    throw std::invalid_argument(std::string(name) + " offsets must rise from 0 to the number of ids, " +
                                std::to_string(ids.values.size()) + ".");
  if (ids.values.size() > size_t(INT32_MAX))
    throw std::invalid_argument(std::string(name) + " has more than 2147483647 ids.");
  int32_t max = -1;
  for (int32_t id : ids.values) {
    if (id < 0) throw std::invalid_argument(std::string(name) + " has the negative id " + std::to_string(id) + ".");
    max = std::max(max, id);
  }
  return max;
}

struct Slice {
  const int32_t* ids;
  int32_t count;
};

Slice slice(const RaggedIds& ids, int i) {
  return {ids.values.data() + ids.offsets[i], int32_t(ids.offsets[i + 1] - ids.offsets[i])};
}

}  // namespace

void SamplingArrays::check() {
  check_length("floats", floats.size(), size_t(count) * kFloats);
  check_length("top_k", top_k.size(), count);
  check_length("num_logprobs", num_logprobs.size(), count);
  check_length("seed", seed.size(), count);
  check_length("draw", draw.size(), count);
  max_id = std::max({check_ragged("prompt", prompt, count), check_ragged("output", output, count),
                     check_ragged("bias", bias, count), check_ragged("banned", banned, count)});
  check_length("bias_values", bias_values.size(), bias.values.size());
}

void SamplingArrays::set_masks(std::vector<int32_t> rows, std::vector<uint32_t> words, int number, int width) {
  check_length("mask_rows", rows.size(), count);
  check_length("masks", words.size(), size_t(number) * width);
  for (int32_t row : rows)
    if (row < -1 || row >= number)
      throw std::invalid_argument("mask_rows names mask " + std::to_string(row) + "; there are " +
                                  std::to_string(number) + ".");
  mask_rows = std::move(rows);
  masks = std::move(words);
  num_masks = number;
  mask_words = width;
}

void SamplingArrays::check_vocab(int vocab) const {
  if (max_id >= vocab)
    throw std::invalid_argument("sampling parameters name token " + std::to_string(max_id) +
                                "; ids must be below the vocabulary's size, " + std::to_string(vocab) + ".");
  if (num_masks > 0 && int64_t(mask_words) * 32 < vocab)
    throw std::invalid_argument("masks have " + std::to_string(mask_words) +
                                " words of 32 bits, which is less than the vocabulary's size, " +
                                std::to_string(vocab) + ".");
}

SampleParams row(const SamplingArrays& arrays, int i) {
  const float* f = arrays.floats.data() + size_t(i) * kFloats;
  SampleParams params;
  params.temperature = f[0];
  params.top_p = f[1];
  params.min_p = f[2];
  params.typical_p = f[3];
  params.repetition_penalty = f[4];
  params.presence_penalty = f[5];
  params.frequency_penalty = f[6];
  params.top_k = arrays.top_k[i];
  params.seed = arrays.seed[i];
  params.draw = arrays.draw[i];
  params.num_logprobs = arrays.num_logprobs[i];
  const Slice prompt = slice(arrays.prompt, i), output = slice(arrays.output, i);
  const Slice bias = slice(arrays.bias, i), banned = slice(arrays.banned, i);
  params.prompt_ids = prompt.ids;
  params.num_prompt = prompt.count;
  params.output_ids = output.ids;
  params.num_output = output.count;
  params.bias_ids = bias.ids;
  params.bias = arrays.bias_values.data() + arrays.bias.offsets[i];
  params.num_bias = bias.count;
  params.banned_ids = banned.ids;
  params.num_banned = banned.count;
  if (!arrays.mask_rows.empty() && arrays.mask_rows[i] >= 0)
    params.mask = arrays.masks.data() + size_t(arrays.mask_rows[i]) * arrays.mask_words;
  return params;
}

}  // namespace tenfold
