// The loops around a variant's register tile: rows are gathered into tiles once a call, then every panel meets every
// tile. Included by the variants only; all of it has internal linkage, because each variant is compiled for another
// instruction set and the linker may keep just one copy of a shared function.
//
// A variant V provides
//   static constexpr int kTiles[]                            tile sizes in rows, increasing
//   template <LayoutId id, int R> static void tile(const uint8_t* panel, const TileRows& rows, int k, float* y)
//
// `rows.records` holds one record a group of 32 k, and after it the group's low parts where `rows.refined[group]` says
// that a row of the tile has them: another record over the same weights, zero for rows that have none. Integer
// layouts: int8 q[R][32], float scale[R], and for each of the layout's
// dots of a group R words: without minimums int32 -offset * sum, the dot's first value; with minimums float
// scale * sum, which the minimum multiplies. bf16: uint16 x[R][32]. y is [R][16].
#pragma once
#include <cmath>
#include <cstring>

#include "linear.hpp"
#include "linear_tables.hpp"
#include "packed_weight.hpp"

namespace tenfold {
namespace {

// Gathered rows stay in the second-level cache while panels stream by.
constexpr size_t kRowsBudget = size_t{384} << 10;
constexpr int kMaxTiles = 64;

constexpr size_t record_bytes(const Layout& layout, int tile_rows) {
  return static_cast<size_t>(tile_rows) * (layout.bits == 16 ? 64 : 36 + 4 * layout.subs());
}

struct TileRows { const uint8_t* refined; const uint8_t* records; };

struct RowTile { int row, count, size; TileRows rows; };

// Row r of a record. `out` is the record's start.
void write_row(const Layout& layout, int size, int r, const int8_t* q, float scale, int32_t sum, uint8_t* out) {
  std::memcpy(out + r * kGroup, q, kGroup);
  std::memcpy(out + size * kGroup + r * 4, &scale, 4);
  int32_t sums[2] = {sum, 0};
  if (layout.subs() == 2) {
    int32_t first = 0;
    for (int i = 0; i < 16; ++i) first += q[i];
    sums[0] = first;
    sums[1] = sum - first;
  }
  for (int s = 0; s < layout.subs(); ++s) {
    uint8_t* word = out + size * (kGroup + 4 + s * 4) + r * 4;
    const float weighted = scale * static_cast<float>(sums[s]);
    const int32_t start = -layout.offset * sums[s];
    if (layout.min) std::memcpy(word, &weighted, 4);
    else std::memcpy(word, &start, 4);
  }
}

// Gathers a tile's rows at `at`; returns the end of what was written.
uint8_t* gather_int8(const Layout& layout, const Activations& x, RowTile& tile, uint8_t* at) {
  static const int8_t zeros[kGroup] = {};
  const int groups = x.groups(), size = tile.size;
  const size_t record = record_bytes(layout, size);
  uint8_t* refined = at;
  uint8_t* records = at + (groups + 63) / 64 * 64;
  std::memset(refined, 0, groups);
  for (int r = 0; r < tile.count; ++r) {
    const uint8_t* flags = x.row(tile.row + r).refined;
    for (int g = 0; g < groups; ++g) refined[g] |= flags[g];
  }
  size_t total = groups;
  for (int g = 0; g < groups; ++g) total += refined[g];
  if (tile.count < size) std::memset(records, 0, record * total);  // rows that only fill the tile
  for (int r = 0; r < tile.count; ++r) {
    const QuantizedRow row = x.row(tile.row + r);
    uint8_t* out = records;
    for (int g = 0; g < groups; ++g, out += record) {
      write_row(layout, size, r, row.q + g * kGroup, row.scale[g], row.sum[g], out);
      if (!refined[g]) continue;
      out += record;
      if (row.refined[g])
        write_row(layout, size, r, row.low + g * kGroup, row.scale[g] / kLowSteps, row.low_sum[g], out);
      else write_row(layout, size, r, zeros, 0.f, 0, out);
    }
  }
  tile.rows = {refined, records};
  return records + record * total;
}

uint8_t* gather_bf16(const Activations& x, RowTile& tile, uint8_t* at) {
  const size_t bytes = static_cast<size_t>(x.groups()) * tile.size * 64;
  if (tile.count < tile.size) std::memset(at, 0, bytes);
  for (int r = 0; r < tile.count; ++r) {
    const uint16_t* from = x.bf16 + static_cast<size_t>(tile.row + r) * x.k_padded;
    for (int g = 0; g < x.groups(); ++g)
      std::memcpy(at + (static_cast<size_t>(g) * tile.size + r) * 64, from + g * kGroup, 64);
  }
  tile.rows = {nullptr, at};
  return at + bytes;
}

uint8_t* gather(const Layout& layout, const Activations& x, RowTile& tile, uint8_t* at) {
  uint8_t* end = layout.bits == 16 ? gather_bf16(x, tile, at) : gather_int8(layout, x, tile, at);
  return at + (end - at + 63) / 64 * 64;
}

// Gives groups with an outlier their low part; the rest of `out` is filled in already.
void refine_row(const float* x, int k, const QuantizedRow& out) {
  const int groups = (k + kGroup - 1) / kGroup;
  float total = 0.f;
  for (int g = 0; g < groups; ++g) total += out.scale[g];
  const float bound = kRefineAbove * (total / static_cast<float>(groups));
  for (int g = 0; g < groups; ++g) {
    out.refined[g] = out.scale[g] > bound;
    if (!out.refined[g]) continue;
    const int at = g * kGroup, count = k - at < kGroup ? k - at : kGroup;
    float padded[kGroup] = {};
    std::memcpy(padded, x + at, sizeof(float) * count);
    int32_t sum = 0;
    for (int i = 0; i < kGroup; ++i) {
      const float left = (padded[i] / out.scale[g] - static_cast<float>(out.q[at + i])) * kLowSteps;
      const float low = std::nearbyint(left > 127.f ? 127.f : left < -127.f ? -127.f : left);
      out.low[at + i] = static_cast<int8_t>(low);
      sum += static_cast<int32_t>(low);
    }
    out.low_sum[g] = sum;
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
void run_tile(int size, const uint8_t* panel, const TileRows& rows, int k, float* y) {
  if constexpr (Index < static_cast<int>(sizeof V::kTiles / sizeof V::kTiles[0])) {
    if (size == V::kTiles[Index]) V::template tile<id, V::kTiles[Index]>(panel, rows, k, y);
    else run_tile<V, id, Index + 1>(size, panel, rows, k, y);
  }
}

// Rows of the next tile: the fewest tiles that take all rows left, as even as the sizes allow.
template <class V>
int tile_size(int rows_left) {
  constexpr int most = V::kTiles[sizeof V::kTiles / sizeof V::kTiles[0] - 1];
  const int tiles = (rows_left + most - 1) / most, share = (rows_left + tiles - 1) / tiles;
  int size = most;
  for (int candidate : V::kTiles)
    if (candidate >= share && candidate < size) size = candidate;
  return size;
}

template <class V, LayoutId id>
void multiply_layout(const PackedWeight& w, const Activations& x, int row_begin, int row_end, int panel_begin,
                     int panel_end, const LinearOut& out) {
  constexpr Layout layout = layout_of(id);
  const size_t groups = static_cast<size_t>(x.groups());
  const size_t tile_bytes = (record_bytes(layout, tile_size<V>(row_end - row_begin)) * groups + 63) / 64 * 64;
  const size_t most_bytes = (2 * tile_bytes + groups + 127) / 64 * 64;  // with every group refined
  const size_t fit = kRowsBudget / tile_bytes;
  const int most_tiles = fit < 1 ? 1 : fit > kMaxTiles ? kMaxTiles : static_cast<int>(fit);
  // tile_size never grows as rows are taken, so every tile fits.
  uint8_t* scratch = linear_scratch(most_bytes * most_tiles);
  RowTile tiles[kMaxTiles];
  alignas(64) float y[16 * kPanel];
  for (int row = row_begin; row < row_end;) {
    int count = 0;
    uint8_t* free = scratch;
    for (; count < most_tiles && row < row_end; ++count) {
      const int size = tile_size<V>(row_end - row);
      const int rows = size < row_end - row ? size : row_end - row;
      tiles[count] = {row, rows, size, {}};
      free = gather(layout, x, tiles[count], free);
      row += rows;
    }
    for (int panel = panel_begin; panel < panel_end; ++panel) {
      const int column = panel * kPanel;
      const int columns = w.n - column < kPanel ? w.n - column : kPanel;
      for (int i = 0; i < count; ++i) {
        run_tile<V, id>(tiles[i].size, w.panel(panel), tiles[i].rows, w.k, y);
        if (columns == kPanel) store_tile(y, tiles[i].row, tiles[i].count, column, kPanel, out);
        else store_tile(y, tiles[i].row, tiles[i].count, column, columns, out);
      }
    }
  }
}

template <class V>
void multiply(const PackedWeight& w, const Activations& x, int row_begin, int row_end, int panel_begin, int panel_end,
              const LinearOut& out) {
  const auto run = [&]<LayoutId id>() {
    multiply_layout<V, id>(w, x, row_begin, row_end, panel_begin, panel_end, out);
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

}  // namespace
}  // namespace tenfold
