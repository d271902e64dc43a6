// Linear kernels for AMX: bfloat16 products of tiles, of weights unpacked to bfloat16 on the way.
//
// Two panels of 16 columns meet 16 or 32 rows in one step of 32 k. A sum stays in its tile over all of k or, if there
// are many rows, over a chunk of k, whose weights are unpacked once and stay in the first-level cache while rows
// stream by; then it goes to memory and comes back as it was. Either way it is the same chain of operations.
#ifdef TENFOLD_AMX
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "activations.hpp"
#include "linear_tables.hpp"
#include "unpack_amx.hpp"

namespace tenfold {
namespace {

constexpr int kMostRows = 2 * kTileRows;
constexpr int kWide = 2;                 // panels taken together
constexpr int kChunk = 20;               // groups of k whose weights, 2 KiB each, stay in the first-level cache
constexpr size_t kSums = size_t{kMostRows} * kWide * kPanel;  // floats of one row tile
constexpr size_t kSumsBudget = size_t{512} << 10;  // bytes of sums that wait for the next chunk of k

// Tile registers: sums 0 and 1 of the first 16 rows with both panels, 2 and 3 of the others; 4 and 5 rows, 6 and 7
// weights. None may be empty.
TileShapes shapes_of(int rows) {
  TileShapes shapes;
  const int first = std::min(rows, kTileRows), second = std::max(rows - kTileRows, 1);
  for (int tile : {0, 1, 4}) shapes.set(tile, first);
  for (int tile : {2, 3, 5}) shapes.set(tile, second);
  for (int tile : {6, 7}) shapes.set(tile, kTileRows);
  return shapes;
}

// Weights of one or two panels as B operands, 1 KiB a group.
struct Operands { const uint8_t *first, *second; };  // second is null if there is but one

inline void zero_sums(int rows) {
  tile_zero<0>();
  tile_zero<1>();
  if (rows <= kTileRows) return;
  tile_zero<2>();
  tile_zero<3>();
}

// Sums [rows][32] of floats.
inline void load_sums(int rows, const float* from) {
  constexpr int kStride = kWide * kPanel * sizeof(float);
  tile_load<0>(from, kStride);
  tile_load<1>(from + kPanel, kStride);
  if (rows <= kTileRows) return;
  tile_load<2>(from + kTileRows * kWide * kPanel, kStride);
  tile_load<3>(from + kTileRows * kWide * kPanel + kPanel, kStride);
}

inline void store_sums(int rows, float* to) {
  constexpr int kStride = kWide * kPanel * sizeof(float);
  tile_store<0>(to, kStride);
  tile_store<1>(to + kPanel, kStride);
  if (rows <= kTileRows) return;
  tile_store<2>(to + kTileRows * kWide * kPanel, kStride);
  tile_store<3>(to + kTileRows * kWide * kPanel + kPanel, kStride);
}

// Adds `groups` groups of k: rows' records from `x` on, weights from `w` on.
inline void add_groups(int rows, const uint8_t* x, const Operands& w, int groups) {
  const size_t step = static_cast<size_t>(rows) * kHalfBytes;
  for (int g = 0; g < groups; ++g, x += step) {
    const size_t at = static_cast<size_t>(g) * kOperandBytes;
    tile_load<6>(w.first + at, kTileBytes);
    tile_load<4>(x, kHalfBytes);
    tile_dot<0, 4, 6>();
    if (rows > kTileRows) {
      tile_load<5>(x + kTileRows * kHalfBytes, kHalfBytes);
      tile_dot<2, 5, 6>();
    }
    if (w.second == nullptr) continue;
    tile_load<7>(w.second + at, kTileBytes);
    tile_dot<1, 4, 7>();
    if (rows > kTileRows) tile_dot<3, 5, 7>();
  }
}

// A call's weight, and how its groups become operands.
template <LayoutId id>
struct Weights {
  static constexpr bool kHalvesAlready = layout_of(id).bits == 16;
  const PackedWeight& w;
  __m512 power;
  float unscale;  // what sums are multiplied with in the end
  int groups;

  explicit Weights(const PackedWeight& weight) : w(weight), groups((weight.k + kGroup - 1) / kGroup) {
    const int exponent = kHalvesAlready ? 0 : weight_exponent(w);
    power = _mm512_set1_ps(std::ldexp(1.f, exponent));
    unscale = kHalvesAlready ? 1.f : std::ldexp(1.f / kQuadScale, kExponentBias - exponent);
  }

  // Groups [begin, begin + count) of a panel; bfloat16 weights lie as they must but for a group that k ends in.
  const uint8_t* operand(int panel, int begin, int count, uint8_t* scratch) const {
    const uint8_t* from = w.panel(panel);
    if constexpr (kHalvesAlready) {
      from += static_cast<size_t>(begin) * kOperandBytes;
      const size_t rows = (w.k + 1) / 2 - static_cast<size_t>(begin) * kTileRows;
      if (rows >= static_cast<size_t>(count) * kTileRows) return from;
      std::memcpy(scratch, from, rows * kTileBytes);
      std::memset(scratch + rows * kTileBytes, 0, static_cast<size_t>(count) * kOperandBytes - rows * kTileBytes);
    } else {
      for (int g = 0; g < count; ++g) unpack_operand<id>(from, w.k, begin + g, power, scratch + g * kOperandBytes);
    }
    return scratch;
  }
  Operands operands(int panel, int end, int begin, int count, uint8_t* scratch) const {
    const uint8_t* first = operand(panel, begin, count, scratch);
    if (panel + 1 >= end) return {first, nullptr};
    return {first, operand(panel + 1, begin, count, scratch + static_cast<size_t>(count) * kOperandBytes)};
  }
};

// Sums of a row tile and one or two panels go where they belong.
void finish(const float* sums, const RowTile& tile, int n, int panel, int panels, float unscale, const LinearOut& out) {
  for (int p = 0; p < panels; ++p) {
    const int column = (panel + p) * kPanel;
    const auto mask = static_cast<__mmask16>(n - column >= kPanel ? 0xffff : (1 << (n - column)) - 1);
    const __m512 factor = _mm512_set1_ps(unscale);
    __m512 bias = _mm512_setzero_ps();
    if (out.bias != nullptr) bias = _mm512_maskz_loadu_ps(mask, out.bias + column);
    for (int r = 0; r < tile.count; ++r) {
      float* to = out.y + static_cast<size_t>(tile.row + r) * out.ld + column;
      __m512 y = _mm512_mul_ps(_mm512_loadu_ps(sums + (r * kWide + p) * kPanel), factor);
      if (out.bias != nullptr) y = _mm512_add_ps(y, bias);
      if (out.add) y = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), y);
      _mm512_mask_storeu_ps(to, mask, y);
    }
  }
}

// One row tile: all of k in one go, so that unpacking and products overlap.
template <LayoutId id>
void multiply_few(const Weights<id>& weights, const Activations& x, Form form, const RowTile& tile, int panel_begin,
                  int panel_end, const LinearOut& out) {
  constexpr int kTogether = Weights<id>::kHalvesAlready ? kChunk : 2;
  alignas(64) uint8_t scratch[kWide * kTogether * kOperandBytes];
  alignas(64) float sums[kSums];
  const TileSession session(shapes_of(tile.size));
  const uint8_t* rows = x.tile(form, tile.slot);
  const size_t step = static_cast<size_t>(tile.size) * kHalfBytes;
  for (int panel = panel_begin; panel < panel_end; panel += kWide) {
    zero_sums(tile.size);
    for (int g = 0; g < weights.groups; g += kTogether) {
      const int count = std::min(kTogether, weights.groups - g);
      add_groups(tile.size, rows + step * g, weights.operands(panel, panel_end, g, count, scratch), count);
    }
    store_sums(tile.size, sums);
    finish(sums, tile, weights.w.n, panel, std::min(kWide, panel_end - panel), weights.unscale, out);
  }
}

// Many row tiles times some panels, chunk by chunk of k.
template <LayoutId id>
void multiply_many(const Weights<id>& weights, const Activations& x, Form form, const RowTile* tiles, int num_tiles,
                   int panel_begin, int panel_end, float* sums, const LinearOut& out) {
  alignas(64) uint8_t scratch[kWide * kChunk * kOperandBytes];
  const int chunks = (weights.groups + kChunk - 1) / kChunk;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int begin = weights.groups * chunk / chunks, count = weights.groups * (chunk + 1) / chunks - begin;
    float* at = sums;
    for (int panel = panel_begin; panel < panel_end; panel += kWide) {
      const Operands w = weights.operands(panel, panel_end, begin, count, scratch);
      for (int t = 0; t < num_tiles;) {
        const int size = tiles[t].size;
        const TileSession session(shapes_of(size));
        for (; t < num_tiles && tiles[t].size == size; ++t, at += chunks > 1 ? kSums : 0) {
          if (chunk == 0) zero_sums(size);
          else load_sums(size, at);
          const size_t step = static_cast<size_t>(size) * kHalfBytes;
          add_groups(size, x.tile(form, tiles[t].slot) + step * begin, w, count);
          store_sums(size, at);
          if (chunk + 1 == chunks)
            finish(at, tiles[t], weights.w.n, panel, std::min(kWide, panel_end - panel), weights.unscale, out);
        }
      }
    }
  }
}

template <LayoutId id>
void multiply_layout(const PackedWeight& w, const Activations& x, int tile_begin, int tile_end, int panel_begin,
                     int panel_end, const LinearOut& out) {
  const Weights<id> weights(w);
  const Form form = Weights<id>::kHalvesAlready ? kHalves : kQuads;
  const RowTile* tiles = x.tiles->data() + tile_begin;
  const int num_tiles = tile_end - tile_begin;
  if (num_tiles == 0) return;
  if (num_tiles == 1) return multiply_few<id>(weights, x, form, tiles[0], panel_begin, panel_end, out);
  const size_t a_pair = kSums * sizeof(float) * num_tiles;
  const int wide = static_cast<int>(std::max<size_t>(1, kSumsBudget / a_pair)) * kWide;
  float* sums = reinterpret_cast<float*>(linear_scratch(a_pair * (wide / kWide)));
  for (int panel = panel_begin; panel < panel_end; panel += wide)
    multiply_many<id>(weights, x, form, tiles, num_tiles, panel, std::min(panel + wide, panel_end), sums, out);
}

void multiply(const PackedWeight& w, const Activations& x, int tile_begin, int tile_end, int panel_begin,
              int panel_end, const LinearOut& out) {
  by_layout(w.format->id, [&]<LayoutId id>() {
    multiply_layout<id>(w, x, tile_begin, tile_end, panel_begin, panel_end, out);
  });
}

// What kQuads asks for.
void quad_row(const float* x, int k, uint16_t* out) {
  const int padded = padded_to_pairs(k);
  const __m512 up = _mm512_set1_ps(kQuadScale);
  const auto load = [&](int at) {
    const int left = k - at;
    const auto mask = static_cast<__mmask16>(left >= 16 ? 0xffff : left <= 0 ? 0 : (1 << left) - 1);
    return _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + at), up);
  };
  constexpr int kOrder = 0xd8;  // 0, 2, 1, 3
  for (int i = 0; i < padded; i += 32) {
    const auto halves = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(load(i + 16), load(i)));
    const __m512i low = _mm512_shufflelo_epi16(halves, kOrder);
    _mm512_storeu_si512(out + i, _mm512_shufflehi_epi16(low, kOrder));
  }
}

constexpr int kTiles[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, kMostRows};

}  // namespace

const LinearKernels& linear_kernels_amx() {
  const LinearKernels& base = linear_kernels_avx512();
  static const LinearKernels kernels{base.quantize_row, base.bf16_row, quad_row, kTiles,
                                     static_cast<int>(std::size(kTiles)), multiply};
  return kernels;
}

}  // namespace tenfold
#endif
