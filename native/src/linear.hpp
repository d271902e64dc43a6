// Linear layers: packed weights, activations in int8 or bfloat16, matrix products.
//
// Same bits: an output element is one chain of operations that depends on its own row and its own column only: blocks
// of k in increasing order, each before the row's outliers in it. Tiles may group rows and columns as they like.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "isa.hpp"
#include "pool.hpp"

namespace tenfold {

constexpr int kPanel = 16;        // output columns interleaved in a panel of packed weights
constexpr int kGroup = 32;        // elements of k that share one activation scale
constexpr int kPair = 2 * kGroup; // activations are padded to whole pairs of groups
constexpr int kBlock = 256;       // elements of k over which the scales of groups are whole multiples of one unit
constexpr int kBlockGroups = kBlock / kGroup;

// Elements larger than this times the row's mean of max|x| over groups are outliers: their groups are quantized as if
// they ended there, and what is cut off is kept apart as floats. In SmolLM2 that is 3 of 576 elements in the inputs of
// attention and feed-forward; without it the mean KL is 3.2e-3, with it 1.0e-3 (bench/LOG.md). Logits depend most on
// what they are made from, of which there is but a row a sequence, so their bound is lower.
constexpr float kOutlierAbove = 1.5f;
constexpr float kLogitOutlierAbove = 0.75f;
constexpr float kLevels = 31.f;   // a group's scale is 1 to 31 units

struct PackedWeight;  // defined in packed_weight.hpp

// What a row's element k has beyond scale * q.
struct Outlier { int32_t k; float value; };

// One row in int8: x = scale * q, plus its outliers. `groups` below counts padding, where q is 0.
struct QuantizedRow {
  int8_t* q;           // [k_padded]
  float* scale;        // [groups]: unit of the group's block, times its level
  uint8_t* level;      // [groups], 1 to kLevels
  float* unit;         // [blocks]; NaN if the block has a NaN or an infinity, and then q is 0
  int32_t* sum;        // [groups], of q
  Outlier* outliers;   // [outlier_capacity(k)], increasing k
  int32_t* num_outliers;
};

inline int padded_to_pairs(int k) { return (k + kPair - 1) / kPair * kPair; }
inline int blocks_of(int k) { return (k + kBlock - 1) / kBlock; }
// Pairs of groups in block number `block`: 4, fewer in the last, whose last group may only fill a pair.
constexpr int pairs_in_block(int k, int block) {
  const int pairs = (k + kPair - 1) / kPair - block * (kBlock / kPair);
  return pairs < kBlock / kPair ? pairs : kBlock / kPair;
}
// More candidates than this raise the row's bound until they fit.
inline int outlier_capacity(int k) { return k / kPair + 2; }

// Rows [row, row + count) of a call that a kernel takes together, in the first of `size` lanes; `slot` is the number
// of lanes before them.
struct RowTile { int row, count, size, slot; };

// In which forms activations are kept, as weights ask for them; a set of bits.
enum Form : unsigned { kPairs = 1, kGroups = 2, kHalves = 4, kQuads = 8 };
constexpr int kForms = 4;

struct Activations;  // defined in activations.hpp

// Where products go: y[row * ld + column], with an optional bias (by column); `add` adds to what is there.
struct LinearOut {
  float* y;
  int ld;
  const float* bias;
  bool add;
};

struct LinearKernels {
  // Writes all that `out` points at; see quantize_row in linear_driver.hpp.
  void (*quantize_row)(const float* x, int k, float outlier_above, const QuantizedRow& out);
  void (*bf16_row)(const float* x, int k, uint16_t* out);  // [k_padded]
  // The same for kQuads; null where integer weights meet quantized activations.
  void (*quad_row)(const float* x, int k, uint16_t* out);
  const int* tile_sizes;  // rows that a tile may take, increasing
  int num_tile_sizes;
  // Tiles [tile_begin, tile_end) of x's plan times panels [panel_begin, panel_end) of w.
  void (*multiply)(const PackedWeight& w, const Activations& x, int tile_begin, int tile_end, int panel_begin,
                   int panel_end, const LinearOut& out);
};

// amx meets integer weights with bfloat16 activations, the others with int8 ones.
const LinearKernels& linear_kernels(Isa isa);

// Packs a matrix of n rows (outputs) and k columns from a ggml storage type (number as in GGUF) for the kernels.
// Codes are kept as they are. Scales are too, but for Q4_0 and Q4_1: theirs become whole multiples of a unit, off by
// 0.2 % of the block's largest at most. Minimums of 4-bit formats round to bfloat16, F32 and F16 values likewise.
// Throws std::invalid_argument with a sentence for an unsupported type, a wrong byte count, a k that the type's block
// does not divide, or NaN or infinite scales (naming the byte offset inside the tensor).
std::shared_ptr<const PackedWeight> pack_weight(int ggml_type, const uint8_t* data, size_t bytes, int n, int k,
                                                ThreadPool& pool);

int weight_rows(const PackedWeight& w);       // n
int weight_columns(const PackedWeight& w);    // k
int weight_panels(const PackedWeight& w);     // ceil(n / kPanel)
size_t weight_bytes(const PackedWeight& w);   // bytes held
Form weight_form(const LinearKernels& kernels, const PackedWeight& w);  // of the activations it meets
const char* weight_format(const PackedWeight& w);
void unpack_row(const PackedWeight& w, int row, float* out);  // k floats, exactly the values multiplied with

}  // namespace tenfold
