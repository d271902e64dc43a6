// Rows of activations as the kernels read them: lane by lane in tiles, in the forms that weights ask for.
//
// Records of a tile of R lanes, [R] meaning one entry a lane:
//
//   pairs   for each block of 256 k with p pairs of groups (4, fewer in the last): unit float[R], then for each pair
//           the sums of its two groups as values, bfloat16, the second in the low half: uint32[p][R]; then for each
//           pair q int8[R][64], start of the first group int32[R] = -8 * sum, of the second int32[R] = 32768 - 8 * sum,
//           both -8 * sum as 16 bits, uint32[R], and levels uint32[R], the second group's in the low half
//   groups  for each group: q int8[R][32], scale float[R], sums of q over the group, its first and its second half
//           int32[3][R], the same as values float[3][R]
//   halves  for each group: bfloat16[R][32]
//   quads   the same of x * kQuadScale, and within each four k in the order 0, 2, 1, 3
#pragma once
#include <atomic>
#include <cstddef>
#include <vector>

#include "aligned.hpp"
#include "linear.hpp"

namespace tenfold {

constexpr int kMostLanes = 12;  // of a tile of quantized rows
constexpr size_t kPairBytes = kPair + 16;                    // a lane's part of a pair, as all below
constexpr size_t kGroupBytes = kGroup + 4 + 12 + 12;
constexpr size_t kHalfBytes = kGroup * sizeof(uint16_t);
// Integer weights become bfloat16 2^112 times smaller than they are (unpack_amx.hpp), so activations come larger, to
// keep products from vanishing; beyond 2^64 they become infinite.
constexpr float kQuadScale = 0x1p64f;
constexpr size_t block_start_bytes(int pairs) { return 4 + 4 * static_cast<size_t>(pairs); }

// Bytes of one lane over all of k.
inline size_t lane_bytes(Form form, int k) {
  const size_t groups = static_cast<size_t>(padded_to_pairs(k)) / kGroup;
  if (form == kPairs) return groups / 2 * (kPairBytes + 4) + static_cast<size_t>(blocks_of(k)) * 4;
  return groups * (form == kGroups ? kGroupBytes : kHalfBytes);
}

// Rows of k columns. What is written and read through it belongs to an ActivationStore.
struct Activations {
  int k = 0;
  const std::vector<RowTile>* tiles = nullptr;
  uint8_t* records[kForms] = {};         // by form, lowest bit first
  // A tile's outliers in columns, increasing k, each with a value for all R lanes, 0 where a lane has none: so a
  // weight's column is unpacked once, and no branch depends on data. A tile's begin at its slot.
  uint32_t* outlier_k = nullptr;         // [slots][outlier_capacity(k)]
  float* outlier_values = nullptr;       // [slots][outlier_capacity(k)][kMostLanes], packed to [columns][R] in a tile
  int32_t* num_outliers = nullptr;       // [tiles]

  uint8_t* tile(Form form, int slot) const {
    return records[__builtin_ctz(form)] + lane_bytes(form, k) * slot;
  }
  size_t first_outlier(int slot) const { return static_cast<size_t>(slot) * outlier_capacity(k); }
};

// A row before it is laid out. One a thread.
class QuantizedScratch {
 public:
  QuantizedRow row(int k);  // valid until the next call; its outliers are left to the caller

 private:
  std::vector<int8_t> q_;
  std::vector<float> scale_, unit_;
  std::vector<uint8_t> level_;
  std::vector<int32_t> sum_;
};

class ActivationStore {
 public:
  ActivationStore() = default;
  // For at most `rows` rows of `k` columns at most, in these forms. `outlier_above`: see kOutlierAbove.
  ActivationStore(const LinearKernels& kernels, size_t rows, int k, unsigned forms,
                  float outlier_above = kOutlierAbove);

  void plan(int rows);  // how many rows the next ones are
  Activations view(int k) const;
  // Quantizes (or rounds) row `row` of the plan into the forms asked for. Rows may be put by several threads; all rows
  // of the plan must be before the next are, or are multiplied.
  void put(const float* x, int k, int row, unsigned forms) const;

 private:
  const LinearKernels* kernels_ = nullptr;
  float outlier_above_ = kOutlierAbove;
  std::vector<RowTile> tiles_;
  std::vector<int> tile_of_;  // [rows]
  int planned_ = -1;
  AlignedArray<uint8_t> records_[kForms];
  void merge(const RowTile& tile, int number, const Activations& into) const;

  AlignedArray<Outlier> row_outliers_;       // [rows][outlier_capacity(k)]
  AlignedArray<int32_t> num_row_outliers_;   // [rows]
  AlignedArray<uint32_t> outlier_k_;
  AlignedArray<float> outlier_values_;
  AlignedArray<int32_t> num_outliers_;
  AlignedArray<std::atomic<int32_t>> rows_put_;  // [tiles], back at 0 when a tile is whole
};

}  // namespace tenfold
