#include "activations.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "bf16.hpp"

namespace tenfold {
namespace {

void put_word(uint8_t* at, int32_t word) { std::memcpy(at, &word, 4); }
void put_float(uint8_t* at, float value) { std::memcpy(at, &value, 4); }

// One pair of groups, of which `g` is the first.
void put_pair(const QuantizedRow& row, int g, int lane, int lanes, uint8_t* out) {
  std::memcpy(out + static_cast<size_t>(lane) * kPair, row.q + static_cast<size_t>(g) * kGroup, kPair);
  uint8_t* words = out + static_cast<size_t>(lanes) * kPair + lane * 4;
  put_word(words, -8 * row.sum[g]);
  put_word(words + 4 * lanes, 32768 - 8 * row.sum[g + 1]);
  put_word(words + 8 * lanes, static_cast<int32_t>((static_cast<uint32_t>(-8 * row.sum[g]) << 16) |
                                                  (static_cast<uint32_t>(-8 * row.sum[g + 1]) & 0xffffu)));
  put_word(words + 12 * lanes, (row.level[g] << 16) | row.level[g + 1]);
}

void put_pairs(const QuantizedRow& row, int k, int lane, int lanes, uint8_t* out) {
  for (int block = 0; block < blocks_of(k); ++block) {
    const int first = block * kBlockGroups, pairs = pairs_in_block(k, block);
    put_float(out + lane * 4, row.unit[block]);
    for (int p = 0; p < pairs; ++p) {
      const int g = first + 2 * p;
      const uint32_t high = float_to_bf16(row.scale[g] * static_cast<float>(row.sum[g]));
      const uint32_t low = float_to_bf16(row.scale[g + 1] * static_cast<float>(row.sum[g + 1]));
      put_word(out + static_cast<size_t>(lanes) * 4 * (1 + p) + lane * 4, static_cast<int32_t>((high << 16) | low));
    }
    out += block_start_bytes(pairs) * lanes;
    for (int p = 0; p < pairs; ++p, out += kPairBytes * lanes) put_pair(row, first + 2 * p, lane, lanes, out);
  }
}

void put_groups(const QuantizedRow& row, int k, int lane, int lanes, uint8_t* out) {
  const size_t R = static_cast<size_t>(lanes);
  for (int g = 0; g < padded_to_pairs(k) / kGroup; ++g, out += kGroupBytes * R) {
    const int8_t* q = row.q + static_cast<size_t>(g) * kGroup;
    int32_t half = 0;
    for (int i = 0; i < kGroup / 2; ++i) half += q[i];
    const int32_t sums[3] = {row.sum[g], half, row.sum[g] - half};
    std::memcpy(out + lane * kGroup, q, kGroup);
    put_float(out + R * kGroup + lane * 4, row.scale[g]);
    for (int s = 0; s < 3; ++s) {
      put_word(out + R * (kGroup + 4 + 4 * s) + lane * 4, sums[s]);
      put_float(out + R * (kGroup + 16 + 4 * s) + lane * 4, row.scale[g] * static_cast<float>(sums[s]));
    }
  }
}

void put_halves(void (*round)(const float*, int, uint16_t*), const float* x, int k, int lane, int lanes, uint8_t* out) {
  thread_local std::vector<uint16_t> halves;
  if (halves.size() < static_cast<size_t>(padded_to_pairs(k))) halves.resize(padded_to_pairs(k));
  round(x, k, halves.data());
  for (int g = 0; g < padded_to_pairs(k) / kGroup; ++g)
    std::memcpy(out + (static_cast<size_t>(g) * lanes + lane) * kHalfBytes, halves.data() + g * kGroup, kHalfBytes);
}

// The size of the next tile when so many rows are left: of the fewest tiles that take all, as even as sizes allow.
int next_tile(const LinearKernels& kernels, int left) {
  const int most = kernels.tile_sizes[kernels.num_tile_sizes - 1];
  const int wanted = (left + most - 1) / most, share = (left + wanted - 1) / wanted;
  for (int i = 0; i < kernels.num_tile_sizes; ++i)
    if (kernels.tile_sizes[i] >= share) return kernels.tile_sizes[i];
  return most;
}

}  // namespace

QuantizedRow QuantizedScratch::row(int k) {
  const size_t padded = padded_to_pairs(k);
  if (q_.size() < padded) {
    q_.resize(padded);
    scale_.resize(padded / kGroup);
    level_.resize(padded / kGroup);
    sum_.resize(padded / kGroup);
    unit_.resize(blocks_of(k));
  }
  return {q_.data(), scale_.data(), level_.data(), unit_.data(), sum_.data(), nullptr, nullptr};
}

ActivationStore::ActivationStore(const LinearKernels& kernels, size_t rows, int k, unsigned forms,
                                 float outlier_above)
    : kernels_(&kernels), outlier_above_(outlier_above) {
  const size_t lanes = rows + kernels.tile_sizes[kernels.num_tile_sizes - 1];  // no plan wastes more lanes than that
  for (int i = 0; i < kForms; ++i) {
    const auto form = static_cast<Form>(1u << i);
    if ((forms & form) != 0) records_[i] = AlignedArray<uint8_t>(lane_bytes(form, k) * lanes);
  }
  if ((forms & (kPairs | kGroups)) == 0) return;
  row_outliers_ = AlignedArray<Outlier>(rows * outlier_capacity(k));
  num_row_outliers_ = AlignedArray<int32_t>(rows);
  const size_t columns = (rows + kMostLanes) * outlier_capacity(k);
  outlier_k_ = AlignedArray<uint32_t>(columns);
  outlier_values_ = AlignedArray<float>(columns * kMostLanes);
  num_outliers_ = AlignedArray<int32_t>(rows);
  rows_put_ = AlignedArray<std::atomic<int32_t>>(rows);
}

void ActivationStore::plan(int rows) {
  if (rows == planned_) return;
  planned_ = rows;
  tiles_.clear();
  for (int row = 0, slot = 0; row < rows;) {
    const int size = next_tile(*kernels_, rows - row);
    tiles_.push_back({row, std::min(size, rows - row), size, slot});
    row += size;
    slot += size;
  }
  tile_of_.resize(rows);
  for (size_t t = 0; t < tiles_.size(); ++t)
    for (int i = 0; i < tiles_[t].count; ++i) tile_of_[tiles_[t].row + i] = static_cast<int>(t);
}

Activations ActivationStore::view(int k) const {
  return {k, &tiles_, {records_[0].get(), records_[1].get(), records_[2].get(), records_[3].get()}, outlier_k_.get(),
          outlier_values_.get(), num_outliers_.get()};
}

void ActivationStore::put(const float* x, int k, int row, unsigned forms) const {
  const Activations into = view(k);
  const int number = tile_of_[row];
  const RowTile& tile = tiles_[number];
  const int lane = row - tile.row;
  if ((forms & kHalves) != 0) put_halves(kernels_->bf16_row, x, k, lane, tile.size, into.tile(kHalves, tile.slot));
  if ((forms & kQuads) != 0) put_halves(kernels_->quad_row, x, k, lane, tile.size, into.tile(kQuads, tile.slot));
  if ((forms & (kPairs | kGroups)) == 0) return;
  thread_local QuantizedScratch scratch;
  QuantizedRow quantized = scratch.row(k);
  quantized.outliers = row_outliers_.get() + static_cast<size_t>(row) * outlier_capacity(k);
  quantized.num_outliers = num_row_outliers_.get() + row;
  kernels_->quantize_row(x, k, outlier_above_, quantized);
  if ((forms & kPairs) != 0) put_pairs(quantized, k, lane, tile.size, into.tile(kPairs, tile.slot));
  if ((forms & kGroups) != 0) put_groups(quantized, k, lane, tile.size, into.tile(kGroups, tile.slot));
  if (rows_put_.get()[number].fetch_add(1, std::memory_order_acq_rel) != tile.count - 1) return;
  rows_put_.get()[number].store(0, std::memory_order_relaxed);
  merge(tile, number, into);
}

// Merges the sorted lists of a tile's rows into columns.
void ActivationStore::merge(const RowTile& tile, int number, const Activations& into) const {
  constexpr int32_t kEnd = INT32_MAX;
  const Outlier* at[kMostLanes];
  const Outlier* end[kMostLanes];
  int32_t next = kEnd;
  for (int r = 0; r < tile.count; ++r) {
    at[r] = row_outliers_.get() + static_cast<size_t>(tile.row + r) * outlier_capacity(into.k);
    end[r] = at[r] + num_row_outliers_.get()[tile.row + r];
    if (at[r] != end[r]) next = std::min(next, at[r]->k);
  }
  const size_t first = into.first_outlier(tile.slot);
  float* values = into.outlier_values + first * kMostLanes;
  int32_t count = 0;
  for (; next != kEnd; ++count, values += tile.size) {
    const int32_t k = next;
    next = kEnd;
    into.outlier_k[first + count] = static_cast<uint32_t>(k);
    std::memset(values, 0, sizeof(float) * tile.size);
    for (int r = 0; r < tile.count; ++r) {
      if (at[r] != end[r] && at[r]->k == k) values[r] = (at[r]++)->value;
      if (at[r] != end[r]) next = std::min(next, at[r]->k);
    }
  }
  into.num_outliers[number] = count;
}

}  // namespace tenfold
