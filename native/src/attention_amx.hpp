// What attention_amx.cpp works with: how queries are cut into tiles, a thread's memory, and weights from scores.
// Include lanes_avx512.hpp first.
#pragma once
#include <algorithm>
#include <utility>

#include "attention_rows.hpp"
#include "tiles_amx.hpp"

namespace tenfold {
namespace {

constexpr int kStep = 32;  // tokens that one tile product sums over
constexpr int kSteps = kSplit / kStep;
constexpr int kMaxQueryTiles = kMaxQueries / kTileRows;
constexpr int kTileElements = 512;                             // bfloat16 of a tile
constexpr int kQueryTile = kMaxHeadDim / 32 * kTileElements;   // elements of 16 queries: tiles of 32 dims
constexpr int kScoreTiles = kSplit * kTileRows;                // scores of 16 queries: tiles of 16 tokens
constexpr int kWeightTiles = kSteps * kTileElements;           // weights of 16 queries: tiles of 32 tokens

constexpr uint32_t kOnes[16] = {0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80,
                                0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80,
                                0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80};

struct alignas(64) Workspace {
  uint16_t queries[kMaxQueryTiles * kQueryTile];
  float scores[2 * kScoreTiles];
  uint16_t weights[2 * kWeightTiles];
  float minus[kTileRows];                 // negated largest scores
  float sums[kTileRows * kTileRows];
  uint16_t values[kSplit * kMaxHeadDim];  // of steps that cannot be taken from the cache as they are
  uint16_t joined[2][4 * kTileElements];  // 64 dims of a step whose values lie apart in the cache, and of the next one
  uint16_t last_keys[kTilesPerSplit * kTileElements];
  float kept[2 * kTileRows * kMaxHeadDim];
};

// A unit's queries in tiles of equal size. The last ones may overlap: they compute the same bits twice.
struct Cut {
  int queries, tiles, rows;  // rows of a tile
  explicit Cut(const AttentionUnit& unit)
      : queries(unit.rows * unit.heads), tiles(queries <= kTileRows ? 1 : (queries + 31) / 32 * 2),
        rows((queries + tiles - 1) / tiles) {}
  int first(int tile) const { return std::min(tile * rows, queries - rows); }
};

// Calls f with 0 to n - 1 as constants.
template <int n, class F>
TENFOLD_INLINE void each(const F& f) {
  [&]<int... i>(std::integer_sequence<int, i...>) [[gnu::always_inline]] {
    (f(std::integral_constant<int, i>{}), ...);
  }(std::make_integer_sequence<int, n>{});
}

// To the second level: a split overflows the first.
TENFOLD_INLINE void ask_for(const uint16_t* p, int lines) {
  for (int i = 0; i < lines; ++i) __builtin_prefetch(p + i * 32, 0, 2);
}

// 2^x; 0 for -infinity. The fraction is a cubic with a relative error of 7.5e-5, lost in the rounding to bfloat16.
TENFOLD_INLINE Lanes::F coarse_exp2(Lanes::F x) {
  const Lanes::F f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);  // x - floor(x)
  Lanes::F p = Lanes::fma(f, Lanes::set(0.07802452147006989f), Lanes::set(0.22606715559959412f));
  p = Lanes::fma(p, f, Lanes::set(0.6958335638046265f));
  p = Lanes::fma(p, f, Lanes::set(0.9999251961708069f));
  return _mm512_scalef_ps(p, x);  // times 2^floor(x)
}

// The largest of each of 16 vectors, which it overwrites.
inline Lanes::F largest_of_each(Lanes::F* x) {
  for (int i = 0; i < 8; ++i)
    x[i] = Lanes::max(_mm512_shuffle_f32x4(x[i], x[i + 8], 0x44), _mm512_shuffle_f32x4(x[i], x[i + 8], 0xee));
  for (int i = 0; i < 4; ++i)
    x[i] = Lanes::max(_mm512_shuffle_f32x4(x[i], x[i + 4], 0x88), _mm512_shuffle_f32x4(x[i], x[i + 4], 0xdd));
  for (int i = 0; i < 2; ++i)
    x[i] = Lanes::max(_mm512_unpacklo_ps(x[i], x[i + 2]), _mm512_unpackhi_ps(x[i], x[i + 2]));
  const Lanes::F all = Lanes::max(_mm512_shuffle_ps(x[0], x[1], 0x44), _mm512_shuffle_ps(x[0], x[1], 0xee));
  // By now the order is 0 2 1 3, 8 10 9 11, 4 6 5 7, 12 14 13 15.
  return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15), all);
}

}  // namespace
}  // namespace tenfold
