// The loops around a variant's register tile, and what quantizing a row means. Included by the variants only; all of
// it has internal linkage, because each variant is compiled for another instruction set and the linker may keep just
// one copy of a shared function.
//
// A variant V provides
//   static constexpr int kTiles[]                         tile sizes in rows, increasing
//   template <LayoutId id, int R> static void tile(const uint8_t* panel, const uint8_t* records, int k, float* y)
//       adds products to y, [R][16], in the order that linear_generic.cpp spells out
//   static uint32_t most(const float* x, int count)       bits of the largest |x|, count up to kGroup
//   static int count_above(const float* x, int count, float bound)
//   static void bf16_row(const float* x, int k, uint16_t* out)
//   static int32_t quantize(const float* x, int count, float inverse, int8_t* q)   see quantize_row; returns sum of q
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

// The bound above which elements are outliers: kOutlierAbove times the mean of `most` over groups, raised by quarters
// until no more than outlier_capacity elements pass it. Means are sums over eight lanes.
template <class V>
float outlier_bound(const float* x, int k, const float* most) {
  const int groups = (k + kGroup - 1) / kGroup;
  float lanes[8] = {};
  for (int g = 0; g < groups; ++g) lanes[g % 8] += most[g];
  const float total = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  float bound = kOutlierAbove * (total / static_cast<float>(groups));
  for (;;) {
    int count = 0;
    for (int g = 0; g < groups; ++g)
      if (most[g] > bound) count += V::count_above(x + g * kGroup, std::min(kGroup, k - g * kGroup), bound);
    if (count <= outlier_capacity(k)) return bound;
    bound *= 1.25f;
  }
}

// Sets unit, and level and scale of each group; `scale` holds the groups' largest |x| beforehand. A group's scale is
// at least its largest |x|, or the bound if that is less, over 127.
void choose_scales(int first, int groups, float bound, int block, const QuantizedRow& out) {
  float top = 0.f;
  bool finite = true;
  for (int g = first; g < first + groups; ++g) {
    finite = finite && float_to_bits(out.scale[g]) < kInfinity;
    const float most = bound < out.scale[g] ? bound : out.scale[g];
    top = most > top ? most : top;
  }
  const bool usable = finite && top >= kLeast;
  out.unit[block] = !finite ? bits_to_float(0x7fc00000u) : usable ? top / (127.f * kLevels) : 0.f;
  for (int g = first; g < first + groups; ++g) {
    const float most = bound < out.scale[g] ? bound : out.scale[g];
    const float level = usable ? std::ceil(most / top * kLevels) : 1.f;
    out.level[g] = static_cast<uint8_t>(level < 1.f ? 1.f : level > kLevels ? kLevels : level);
    out.scale[g] = out.unit[block] * static_cast<float>(out.level[g]);
  }
}

// q = round-to-nearest-even(x / scale), by way of the scale's inverse, within +-127.
template <class V>
void quantize_row(const float* x, int k, const QuantizedRow& out) {
  const int groups = padded_to_pairs(k) / kGroup;
  int32_t found = 0;
  for (int g = 0; g < groups; ++g) {
    const int count = std::clamp(k - g * kGroup, 0, kGroup);
    out.scale[g] = bits_to_float(V::most(x + (count > 0 ? g * kGroup : 0), count));
  }
  const float bound = outlier_bound<V>(x, k, out.scale);
  for (int first = 0, block = 0; first < groups; first += kBlockGroups, ++block) {
    const int here = std::min(kBlockGroups, groups - first);
    bool outliers[kBlockGroups];
    for (int i = 0; i < here; ++i) outliers[i] = out.scale[first + i] > bound;
    choose_scales(first, here, bound, block, out);
    for (int i = 0; i < here; ++i) {
      const int g = first + i, at = g * kGroup, count = std::clamp(k - at, 0, kGroup);
      const float* from = x + (count > 0 ? at : 0);
      out.sum[g] = V::quantize(from, count, out.scale[g] > 0.f ? 1.f / out.scale[g] : 0.f, out.q + at);
      if (!outliers[i]) continue;
      for (int j = 0; j < count; ++j)
        if (std::fabs(from[j]) > bound)
          out.outliers[found++] = {at + j, from[j] - out.scale[g] * static_cast<float>(out.q[at + j])};
    }
  }
  *out.num_outliers = found;
}

// Values of element `e` of a group, all columns, from its planes: code - offset.
template <LayoutId id>
void codes_of(const uint8_t* planes, int e, float* out) {
  constexpr int bits = layout_of(id).bits;
  const int quad = e / 4;
  const auto bits_at = [e](const uint8_t* plane, int width, int q, int c) {
    const int per_vector = 8 / width;
    uint32_t word;
    std::memcpy(&word, plane + q / per_vector * 64 + c * 4, 4);
    return static_cast<int>((word >> (e % 4 * 8 + width * (q % per_vector))) & ((1u << width) - 1u));
  };
  for (int c = 0; c < kPanel; ++c) {
    int code;
    if constexpr (bits == 8) code = bits_at(planes, 8, quad, c);
    else if constexpr (bits <= 3) code = bits_at(planes, 2, quad, c);
    else code = bits_at(planes, 4, quad, c);
    if constexpr (bits == 3) code |= bits_at(planes + 128, 1, quad, c) << 2;
    if constexpr (bits == 5) code |= bits_at(planes + 256, 1, quad, c) << 4;
    if constexpr (bits == 6) code |= bits_at(planes + 256, 2, quad, c) << 4;
    out[c] = static_cast<float>(code - layout_of(id).offset);
  }
}

// f16 that is finite, without branches, so that loops become vectors.
inline float finite_f16(uint16_t half) {
  const float size = bits_to_float(static_cast<uint32_t>(half & 0x7fffu) << 13) * 0x1p112f;  // exact
  return bits_to_float(float_to_bits(size) | (static_cast<uint32_t>(half & 0x8000u) << 16));
}

inline float load_float(const uint8_t* p) { float x; std::memcpy(&x, p, 4); return x; }

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

// Values of the weights of all columns at element k, as unpack_row gives them.
template <LayoutId id>
void column_of(const uint8_t* panel, int whole_k, int k, float* out) {
  constexpr Layout layout = layout_of(id);
  const int number = k / layout.block, e = k % layout.block, g = e / kGroup, s = e / layout.sub;
  const int pairs = layout.is_fine() ? pairs_in_block(whole_k, number) : 4;
  const uint8_t* head = panel + static_cast<size_t>(number) * layout.block_bytes();
  codes_of<id>(head + layout.head_bytes(pairs) + g * layout.group_bytes(), e % kGroup, out);
  for (int c = 0; c < kPanel; ++c) {
    float scale, minimum = 0.f;
    if constexpr (layout.is_fine()) {
      scale = fine_scale(head, g, c);
      if (layout.min) minimum = fine_minimum(head, pairs, g, c);
    } else if constexpr (id == LayoutId::k4) {
      scale = k4_scale(head, g, c);
      minimum = k4_minimum(head, g, c);
    } else {
      scale = finite_f16(load16(head + 2 * c));
      if (layout.min) minimum = finite_f16(load16(head + 32 + 2 * c));
      const uint8_t* subs = head + layout.head_bytes() - 256;
      if constexpr (layout.nibble_scales()) {
        const uint8_t both = subs[s * 16 + c];
        scale *= static_cast<float>(both & 15);
        minimum *= -static_cast<float>(both >> 4);
      } else if constexpr (layout.is_super() && layout.min) {
        scale *= static_cast<float>(subs[s * 32 + c]);
        minimum *= -static_cast<float>(subs[s * 32 + 16 + c]);
      } else if constexpr (layout.is_super()) {
        scale *= static_cast<float>(static_cast<int8_t>(subs[s * 16 + c]));
      }
    }
    out[c] = layout.min ? scale * out[c] + minimum : scale * out[c];
  }
}

template <LayoutId id>
void add_outliers(const uint8_t* panel, int k, const TileOutlier* outliers, int count, float* y) {
  alignas(64) float column[kPanel];
  for (int i = 0; i < count; ++i) {
    if (i == 0 || outliers[i].k != outliers[i - 1].k) column_of<id>(panel, k, outliers[i].k, column);
    float* to = y + outliers[i].lane * kPanel;
    for (int c = 0; c < kPanel; ++c) to[c] = std::fmaf(outliers[i].value, column[c], to[c]);
  }
}

void store_tile(const float* y, int row, int count, int column, int columns, const LinearOut& out) {
  for (int r = 0; r < count; ++r, y += kPanel) {
    float* to = out.y + static_cast<size_t>(row + r) * out.ld + column;
    for (int c = 0; c < columns; ++c) {
      const float value = out.bias != nullptr ? y[c] + out.bias[column + c] : y[c];
      to[c] = out.add ? to[c] + value : value;
    }
  }
}

template <class V, LayoutId id, int Index = 0>
void run_tile(int size, const uint8_t* panel, const uint8_t* records, int k, float* y) {
  if constexpr (Index < static_cast<int>(sizeof V::kTiles / sizeof V::kTiles[0])) {
    if (size == V::kTiles[Index]) V::template tile<id, V::kTiles[Index]>(panel, records, k, y);
    else run_tile<V, id, Index + 1>(size, panel, records, k, y);
  }
}

// Tiles [begin, end) with all panels asked for: their records fit the cache.
template <class V, LayoutId id>
void multiply_tiles(const PackedWeight& w, const Activations& x, int begin, int end, int panel_begin, int panel_end,
                    const LinearOut& out) {
  constexpr Form form = layout_of(id).bits == 16 ? kHalves : layout_of(id).paired() ? kPairs : kGroups;
  const std::vector<RowTile>& tiles = *x.tiles;
  constexpr int most = V::kTiles[sizeof V::kTiles / sizeof V::kTiles[0] - 1];
  alignas(64) float y[most * kPanel];
  for (int panel = panel_begin; panel < panel_end; ++panel) {
    const int column = panel * kPanel, columns = std::min(kPanel, w.n - column);
    for (int t = begin; t < end; ++t) {
      const RowTile& tile = tiles[t];
      std::memset(y, 0, sizeof(float) * kPanel * tile.size);
      if constexpr (form != kHalves)
        add_outliers<id>(w.panel(panel), w.k, x.tile_outliers(tile.slot), x.num_outliers[t], y);
      run_tile<V, id>(tile.size, w.panel(panel), x.tile(form, tile.slot), w.k, y);
      if (columns == kPanel) store_tile(y, tile.row, tile.count, column, kPanel, out);
      else store_tile(y, tile.row, tile.count, column, columns, out);
    }
  }
}

template <class V, LayoutId id>
void multiply_layout(const PackedWeight& w, const Activations& x, int tile_begin, int tile_end, int panel_begin,
                     int panel_end, const LinearOut& out) {
  const size_t lane = lane_bytes(weight_form(w), x.k);
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
  switch (w.format->id) {
    case LayoutId::q4: return run.template operator()<LayoutId::q4>();
    case LayoutId::q4_min: return run.template operator()<LayoutId::q4_min>();
    case LayoutId::q5: return run.template operator()<LayoutId::q5>();
    case LayoutId::q5_min: return run.template operator()<LayoutId::q5_min>();
    case LayoutId::q8: return run.template operator()<LayoutId::q8>();
    case LayoutId::k2: return run.template operator()<LayoutId::k2>();
    case LayoutId::k3: return run.template operator()<LayoutId::k3>();
    case LayoutId::k4: return run.template operator()<LayoutId::k4>();
    case LayoutId::k5: return run.template operator()<LayoutId::k5>();
    case LayoutId::k6: return run.template operator()<LayoutId::k6>();
    case LayoutId::bf16: return run.template operator()<LayoutId::bf16>();
  }
}

template <class V>
constexpr LinearKernels kernels_of() {
  return {quantize_row<V>, V::bf16_row, V::kTiles, static_cast<int>(sizeof V::kTiles / sizeof V::kTiles[0]), multiply<V>};
}

}  // namespace
}  // namespace tenfold
