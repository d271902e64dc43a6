// Changes to a row's logits before a token is picked: bans, biases, penalties.
#pragma once
#include <cstdint>
#include <vector>

#include "sampling.hpp"

namespace tenfold {

// Applies what params ask for; false if that is nothing. `marks` is scratch: all zeros before and after.
bool edit_logits(float* logits, int vocab, const SampleParams& params, std::vector<int32_t>& marks);

}  // namespace tenfold
