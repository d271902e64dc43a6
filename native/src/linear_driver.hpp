// The loops around a variant's register tile, and what quantizing a row means. Included by the variants only; all of
// it has internal linkage, because each variant is compiled for another instruction set and the linker may keep just
// one copy of a shared function.
//
// A variant V provides
//   static constexpr int kTiles[]                         tile sizes in rows, increasing
//   template <LayoutId id, int R, int P>
//   static void block(const uint8_t* const* panels, const uint8_t* records, int groups, float* y)
//       adds the products of up to 256 k of P panels to y, [P][R][16], in the order that linear_generic.cpp spells out
//   template <int R, int P> static void halves(const uint8_t* const* panels, const uint8_t* records, int k, float* y)
//       the same of bf16 panels
//   template <LayoutId id, int R> static void outliers(const uint8_t* panel, int groups, const uint32_t* k,
//                                                      const float* values, int count, float* y)
//       adds values[count][R] times the weights of elements k of these 256, as unpack_row gives them
//   static uint32_t most(const float* x)                  bits of the largest |x| of a group
//   static uint32_t above(const float* x, float bound)    bit i set where |x[i]| > bound
//   static void bf16_row(const float* x, int k, uint16_t* out)
//   static int32_t quantize(const float* x, float inverse, int8_t* q)   see quantize_row; returns sum of q
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>

#include "activations.hpp"
#include "bf16.hpp"
#include "linear.hpp"
#include "linear_tables.hpp"
#include "packed_weight.hpp"

namespace tenfold {
namespace {

// Rows' records that stay in the second-level cache while panels stream by.
constexpr size_t kRowsBudget = size_t{384} << 10;
constexpr float kLeast = 1e-30f;  // blocks that do not reach it are taken for zero: their scales' inverses would overflow
constexpr uint32_t kInfinity = 0x7f800000u;

// A row's groups of 32; one that k ends in, or that only fills a pair, is seen with zeros behind.
struct Groups {
  const float* x;
  int k, whole;  // groups that lie inside k
  alignas(64) float last[kGroup] = {};

  Groups(const float* row, int columns) : x(row), k(columns), whole(columns / kGroup) {
    std::memcpy(last, x + whole * kGroup, sizeof(float) * (k - whole * kGroup));
  }
  const float* at(int g) const {
    static constexpr float zeros[kGroup] = {};
    return g < whole ? x + g * kGroup : g * kGroup < k ? last : zeros;
  }
};

// The bound above which elements are outliers: `above` times the mean of `most` over groups, raised by quarters
// until no more than outlier_capacity elements pass it. Means are sums over eight lanes. It is kLeast at least: a few
// steps of the smallest numbers would not grow by a quarter, but stay for ever.
template <class V>
float outlier_bound(const Groups& from, float above, const float* most) {
  const int groups = (from.k + kGroup - 1) / kGroup;
  float lanes[8] = {};
  for (int g = 0; g < groups; ++g) lanes[g % 8] += most[g];
  const float total = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  float bound = above * (total / static_cast<float>(groups));
  if (bound < kLeast) bound = kLeast;  // NaN stays
  for (;;) {
    int count = 0;
    for (int g = 0; g < groups; ++g)
      if (most[g] > bound) count += __builtin_popcount(V::above(from.at(g), bound));
    if (count <= outlier_capacity(from.k)) return bound;
    bound *= 1.25f;
  }
}

// A block's unit, and of its eight groups level, scale and the scale's inverse, 0 if nothing can be divided by it. A
// group's scale is at least its largest |x|, or the bound if that is less, over 127. Loops of eight become vectors.
struct BlockScales {
  float unit, level[kBlockGroups], scale[kBlockGroups], inverse[kBlockGroups];

  BlockScales(const float* most, float bound) {
    float kept[kBlockGroups], top = 0.f;
    uint32_t largest = 0;
    for (int i = 0; i < kBlockGroups; ++i) {
      kept[i] = bound < most[i] ? bound : most[i];
      largest = std::max(largest, float_to_bits(most[i]));  // of numbers that are not negative
      top = kept[i] > top ? kept[i] : top;
    }
    const bool finite = largest < kInfinity, usable = finite && top >= kLeast;
    unit = !finite ? bits_to_float(0x7fc00000u) : usable ? top / (127.f * kLevels) : 0.f;
    for (int i = 0; i < kBlockGroups; ++i) {
      const float wanted = usable ? std::ceil(kept[i] / top * kLevels) : 1.f;
      level[i] = wanted < 1.f ? 1.f : wanted > kLevels ? kLevels : wanted;
      scale[i] = unit * level[i];
      inverse[i] = usable ? 1.f / scale[i] : 0.f;
    }
  }
};

// q = round-to-nearest-even(x / scale), by way of the scale's inverse, within +-127.
template <class V>
void quantize_row(const float* x, int k, float outlier_above, const QuantizedRow& out) {
  const int groups = padded_to_pairs(k) / kGroup;
  const Groups from(x, k);
  int32_t found = 0;
  for (int g = 0; g < groups; ++g) out.scale[g] = bits_to_float(V::most(from.at(g)));
  const float bound = outlier_bound<V>(from, outlier_above, out.scale);
  for (int first = 0, block = 0; first < groups; first += kBlockGroups, ++block) {
    const int here = std::min(kBlockGroups, groups - first);
    float most[kBlockGroups] = {};
    std::copy_n(out.scale + first, here, most);
    const BlockScales scales(most, bound);
    out.unit[block] = scales.unit;
    for (int i = 0; i < here; ++i) {
      const int g = first + i;
      const float* values = from.at(g);
      int8_t* q = out.q + g * kGroup;
      out.level[g] = static_cast<uint8_t>(scales.level[i]);
      out.scale[g] = scales.scale[i];
      out.sum[g] = V::quantize(values, scales.inverse[i], q);
      if (!(most[i] > bound)) continue;
      for (uint32_t left = V::above(values, bound); left != 0; left &= left - 1) {
        const int j = __builtin_ctz(left);
        out.outliers[found++] = {g * kGroup + j, values[j] - scales.scale[i] * static_cast<float>(q[j])};
      }
    }
  }
  *out.num_outliers = found;
}

// f16 that is finite, without branches, so that loops become vectors.
inline float finite_f16(uint16_t half) {
  const float size = bits_to_float(static_cast<uint32_t>(half & 0x7fffu) << 13) * 0x1p112f;  // exact
  return bits_to_float(float_to_bits(size) | (static_cast<uint32_t>(half & 0x8000u) << 16));
}

// Scale and minimum of the fine block of so many pairs at `head`, for its group g and column c.
inline float fine_scale(const uint8_t* head, int g, int c) {
  const uint16_t units = load16(head + 64 + g / 2 * 64 + c * 4 + (g % 2 == 0 ? 2 : 0));
  return load_float(head + 4 * c) * static_cast<float>(static_cast<int16_t>(units));
}

inline float fine_minimum(const uint8_t* head, int pairs, int g, int c) {
  return bf16_to_float(load16(head + 64 + (pairs + g / 2) * 64 + c * 4 + (g % 2 == 0 ? 2 : 0)));
}

inline float k4_scale(const uint8_t* head, int g, int c) {
  return finite_f16(load16(head + 2 * c)) * static_cast<float>(head[64 + g * 32 + c]);
}

inline float k4_minimum(const uint8_t* head, int g, int c) {
  const float taken = finite_f16(load16(head + 32 + 2 * c)) * static_cast<float>(head[64 + g * 32 + 16 + c]);
  return cut_to_bf16(8.f * k4_scale(head, g, c) - taken);
}

// Bytes of a panel's 256 k that hold so many groups.
template <LayoutId id>
constexpr size_t panel_step(int groups) {
  constexpr Layout layout = layout_of(id);
  return static_cast<size_t>(layout.block_bytes((groups + 1) / 2)) * (layout.block == kGroup ? groups : 1);
}

// Where an element's weights lie: `head` of its own block, its group in that, its sub-block, its group's planes.
template <LayoutId id>
struct Place {
  static constexpr Layout layout = layout_of(id);
  const uint8_t* head;
  uint32_t pairs, group, sub, element;
  const uint8_t* planes;

  // Element e of the 256 k at `from`, which hold so many groups.
  Place(const uint8_t* from, int groups, uint32_t e)
      : head(from + (layout.block == kGroup ? e / kGroup * layout.block_bytes() : 0)), pairs(static_cast<uint32_t>(groups + 1) / 2),
        group(layout.block == kGroup ? 0 : e / kGroup), sub(e / layout.sub), element(e % kGroup),
        planes(head + layout.head_bytes(pairs) + group * layout.group_bytes()) {}
};

// Few rows wait for weights, and memory serves several streams faster than one, as there are more lines on their way: so
// many panels are read side by side then.
constexpr int kStreams = 4, kStreamedRows = 2;

// Products of P panels and a tile, added to y, [P][R][16]. The outliers of 256 k follow their products, when the weights
// are in the cache.
template <class V, LayoutId id, int R, int P>
void tile_of(const uint8_t* const* from, const uint8_t* records, const Activations& x, int number, float* y) {
  const int all_groups = (x.k + kGroup - 1) / kGroup;
  const size_t first = x.first_outlier((*x.tiles)[number].slot);
  const uint32_t* outliers = x.outlier_k + first;
  const uint32_t* end = outliers + x.num_outliers[number];
  const float* values = x.outlier_values + first * kMostLanes;
  const uint8_t* panels[P];
  for (int p = 0; p < P; ++p) panels[p] = from[p];
  for (int block = 0; block < blocks_of(x.k); ++block) {
    const int groups = std::min(kBlockGroups, all_groups - block * kBlockGroups), pairs = (groups + 1) / 2;
    V::template block<id, R, P>(panels, records, groups, y);
    int count = 0;
    while (outliers + count < end && outliers[count] < static_cast<uint32_t>(block + 1) * kBlock) ++count;
    for (int p = 0; p < P && count > 0; ++p)
      V::template outliers<id, R>(panels[p], groups, outliers, values, count, y + p * R * kPanel);
    outliers += count;
    values += count * R;
    for (int p = 0; p < P; ++p) panels[p] += panel_step<id>(groups);
    records += R * (layout_of(id).paired() ? block_start_bytes(pairs) + kPairBytes * pairs : kGroupBytes * groups);
  }
}

// `columns` of a tile's y go where they belong. With all columns and the cases apart, loops become vectors.
template <bool with_bias, bool add>
void store_rows(const float* __restrict y, int row, int count, int column, int columns, const LinearOut& out) {
  for (int r = 0; r < count; ++r, y += kPanel) {
    float* __restrict to = out.y + static_cast<size_t>(row + r) * out.ld + column;
    const auto store = [&](int c) {
      const float value = with_bias ? y[c] + out.bias[column + c] : y[c];
      to[c] = add ? to[c] + value : value;
    };
    if (columns == kPanel)
      for (int c = 0; c < kPanel; ++c) store(c);
    else
      for (int c = 0; c < columns; ++c) store(c);
  }
}

inline void store_tile(const float* y, const RowTile& tile, int column, int columns, const LinearOut& out) {
  if (out.bias != nullptr) {
    if (out.add) store_rows<true, true>(y, tile.row, tile.count, column, columns, out);
    else store_rows<true, false>(y, tile.row, tile.count, column, columns, out);
  } else if (out.add) store_rows<false, true>(y, tile.row, tile.count, column, columns, out);
  else store_rows<false, false>(y, tile.row, tile.count, column, columns, out);
}

// y = products of P panels and a tile.
template <class V, LayoutId id, int P, int Index = 0>
void run_tile(const PackedWeight& w, const uint8_t* const* panels, const Activations& x, int number, float* y) {
  if constexpr (Index < static_cast<int>(sizeof V::kTiles / sizeof V::kTiles[0])) {
    constexpr int R = V::kTiles[Index];
    constexpr Layout layout = layout_of(id);
    const RowTile& tile = (*x.tiles)[number];
    if constexpr (P > 1 && R > kStreamedRows) return;  // no such call
    else {
      if (tile.size != R) return run_tile<V, id, P, Index + 1>(w, panels, x, number, y);
      std::memset(y, 0, sizeof(float) * P * R * kPanel);
      if constexpr (layout.bits == 16) V::template halves<R, P>(panels, x.tile(kHalves, tile.slot), w.k, y);
      else tile_of<V, id, R, P>(panels, x.tile(layout.paired() ? kPairs : kGroups, tile.slot), x, number, y);
    }
  }
}

// P panels, the first and others `stride` panels on, times tiles [begin, end).
template <class V, LayoutId id, int P>
void multiply_panels(const PackedWeight& w, const Activations& x, int begin, int end, int first, int stride,
                     const LinearOut& out) {
  alignas(64) float y[P * (P > 1 ? kStreamedRows : V::kTiles[sizeof V::kTiles / sizeof V::kTiles[0] - 1]) * kPanel];
  const uint8_t* panels[P];
  for (int p = 0; p < P; ++p) panels[p] = w.panel(first + p * stride);
  for (int t = begin; t < end; ++t) {
    const RowTile& tile = (*x.tiles)[t];
    run_tile<V, id, P>(w, panels, x, t, y);
    for (int p = 0; p < P; ++p) {
      const int column = (first + p * stride) * kPanel;
      store_tile(y + p * tile.size * kPanel, tile, column, std::min(kPanel, w.n - column), out);
    }
  }
}

// Tiles [begin, end) with all panels asked for: their records fit the cache. Streams begin a quarter of the panels apart,
// so that each is long.
template <class V, LayoutId id>
void multiply_tiles(const PackedWeight& w, const Activations& x, int begin, int end, int panel_begin, int panel_end,
                    const LinearOut& out) {
  if (end - begin == 1 && (*x.tiles)[begin].size <= kStreamedRows) {
    const int stride = (panel_end - panel_begin) / kStreams;
    for (int i = 0; i < stride; ++i)
      multiply_panels<V, id, kStreams>(w, x, begin, end, panel_begin + i, stride, out);
    panel_begin += kStreams * stride;
  }
  for (int panel = panel_begin; panel < panel_end; ++panel)
    multiply_panels<V, id, 1>(w, x, begin, end, panel, 0, out);
}

template <class V, LayoutId id>
void multiply_layout(const PackedWeight& w, const Activations& x, int tile_begin, int tile_end, int panel_begin,
                     int panel_end, const LinearOut& out) {
  constexpr Form form = layout_of(id).bits == 16 ? kHalves : layout_of(id).paired() ? kPairs : kGroups;
  const size_t lane = lane_bytes(form, x.k);
  for (int begin = tile_begin; begin < tile_end;) {
    size_t held = 0;
    int end = begin;
    for (; end < tile_end && (end == begin || held < kRowsBudget); ++end) held += lane * (*x.tiles)[end].size;
    multiply_tiles<V, id>(w, x, begin, end, panel_begin, panel_end, out);
    begin = end;
  }
}

template <class V>
void multiply(const PackedWeight& w, const Activations& x, int tile_begin, int tile_end, int panel_begin,
              int panel_end, const LinearOut& out) {
  const auto run = [&]<LayoutId id>() {
    multiply_layout<V, id>(w, x, tile_begin, tile_end, panel_begin, panel_end, out);
  };
  by_layout(w.format->id, run);
}

template <class V>
constexpr LinearKernels kernels_of() {
  constexpr int kCount = static_cast<int>(sizeof V::kTiles / sizeof V::kTiles[0]);
  static_assert(V::kTiles[kCount - 1] <= kMostLanes);
  return {quantize_row<V>, V::bf16_row, nullptr, V::kTiles, kCount, multiply<V>};
}

}  // namespace
}  // namespace tenfold
