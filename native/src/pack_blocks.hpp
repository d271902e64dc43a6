// Blocks of ggml's storage types taken apart into codes and scales.
#pragma once
#include <cstdint>

#include "packed_weight.hpp"

namespace tenfold {

// One block of one row. Codes are unsigned. Sub-scales are bytes as packed_weight.hpp keeps them.
struct BlockParts {
  uint8_t codes[256];
  uint16_t scale, minimum;   // f16 bits
  uint8_t sub_scales[16], sub_minimums[8];
};

// Null when the type is not supported.
const Format* find_format(int ggml_type);

// Takes apart one block of an integer type. Returns -1, or the offset in the block of a scale that is not finite.
int read_block(LayoutId id, const uint8_t* block, BlockParts& out);

}  // namespace tenfold
