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
  uint16_t weights[2][2 * kWeightTiles];  // of the block that is weighed, and of the next one
  float minus[2 * kTileRows];             // negated largest scores
  float top[2 * kTileRows][kTileRows];    // largest scores by token modulo 16
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

// Work on a block's scores of kA tiles of queries, taken a little at a time between tile products: an item is four
// queries and one step. Nothing is left once made by default.
template <int kA, class Item>
struct Progress {
  Item item{};
  int quarters = 0;  // of a tile's rows
  int step = 0, end = 0;
  int a = 0, quarter = 0;

  void one() {
    item(step, a * kTileRows + quarter * 4);
    if (++quarter < quarters) return;
    quarter = 0;
    if (++a < kA) return;
    a = 0;
    ++step;
  }
  void some(int n) {
    for (; n > 0 && step < end; --n) one();
  }
  void through(int last) {
    while (step <= last && step < end) one();
  }
  void rest() { through(end); }
};

// Where a query (0 to 31) of a block has its scores with tokens of a step's first tile; those of the other are 256 on.
TENFOLD_INLINE int score_at(int step, int query) {
  return query / kTileRows * kScoreTiles + (step * 2 * kTileRows + query % kTileRows) * kTileRows;
}

// The largest scores so far, by token modulo 16.
struct Raise {
  const float* scores;
  float (*top)[kTileRows];
  int begin;  // the first step
  [[gnu::always_inline]] void operator()(int step, int query) const {
    const float* s = scores + score_at(step, query);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      Lanes::F x = Lanes::max(Lanes::load(s + r * kTileRows), Lanes::load(s + (kTileRows + r) * kTileRows));
      if (step > begin) x = Lanes::max(Lanes::load(top[query + r]), x);
      Lanes::store(top[query + r], x);
    }
  }
};

// Weights 2^(score - largest).
struct Soften {
  const float *scores, *minus;
  uint16_t* weights;
  [[gnu::always_inline]] void operator()(int step, int query) const {
    const float* s = scores + score_at(step, query);
    uint16_t* p = weights + query / kTileRows * kWeightTiles + step * kTileElements + query % kTileRows * kStep;
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      const Lanes::F shift = Lanes::set(minus[query + r]);
      const Lanes::F first = exp2(Lanes::add(Lanes::load(s + r * kTileRows), shift));
      const Lanes::F second = exp2(Lanes::add(Lanes::load(s + (kTileRows + r) * kTileRows), shift));
      _mm512_storeu_si512(p + r * kStep, (__m512i)_mm512_cvtne2ps_pbh(second, first));
    }
  }
  // 2^x; 0 for -infinity. The fraction is a cubic with a relative error of 7.5e-5, lost in the rounding to bfloat16.
  TENFOLD_INLINE Lanes::F exp2(Lanes::F x) {
    const Lanes::F f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);  // x - floor(x)
    Lanes::F p = Lanes::fma(f, Lanes::set(0.07802452147006989f), Lanes::set(0.22606715559959412f));
    p = Lanes::fma(p, f, Lanes::set(0.6958335638046265f));
    p = Lanes::fma(p, f, Lanes::set(0.9999251961708069f));
    return _mm512_scalef_ps(p, x);  // times 2^floor(x)
  }
};

// The largest of each of 16 vectors.
inline Lanes::F largest_of_each(const float (*top)[kTileRows]) {
  Lanes::F x[16];
  for (int i = 0; i < 16; ++i) x[i] = Lanes::load(top[i]);
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
