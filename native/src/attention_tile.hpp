// The arithmetic of attention over one split, written once over Lanes. Include a lanes_*.hpp first.
//
// Same bits: what a query computes is one chain of operations over its own visible keys, in order of position. Tiles
// share loads between queries; where a query's range ends inside a shared tile, the rest of its range is walked alone.
#pragma once
#include "attention_rows.hpp"

namespace tenfold {
namespace {

using Weight = Lanes::Weight;

// VDPBF16PS takes both factors in bfloat16. K and V are bfloat16 already, which gives the outputs a relative error of
// 4e-3 to 1.3e-2 (random keys with a few offset channels, scores of deviation 1 to 8). Rounding q and p once adds 4 to
// 12 % to that, at most 41 % where keys have no offsets. Their remainders too would make a long prefill 30 % slower.
constexpr int kUnitQueries = 72;  // query vectors (rows times heads) of a unit
constexpr int kGroup = 12;  // queries taken through a split together: their scores fit the first-level cache
constexpr int kQueryStride = kMaxHeadDim / 2;   // pairs of the widest head
constexpr int kProbabilityStride = kSplit / 2;  // pairs of a split

// Where the tiles of a split lie, by number.
struct Tiles {
  const uint16_t *k[kTilesPerSplit], *v[kTilesPerSplit];
  const uint16_t* next[kTilesPerSplit];  // K tiles that are walked after this split, or anything that may be asked for
};

struct alignas(64) Workspace {
  Weight queries[kUnitQueries * kQueryStride];
  Weight probabilities[kGroup * kProbabilityStride];
  float scores[kGroup * kSplit];
  float minus[kGroup];  // negated largest scores
  Tiles tiles;
};

// Where a few queries walk a long context, memory sets the pace. So that it is never idle, scoring a tile asks for the
// tile's values (`v` below), and weighing values asks for the keys that come next (`next`).
template <bool kAsk>
TENFOLD_INLINE void ask_for(const uint16_t* p) {
  if constexpr (kAsk) __builtin_prefetch(p, 0, 2);  // to the second level: a split overflows the first
}

// p = 2^(s - largest) of two tiles of a query; `minus` is the negated largest score.
template <class L = Lanes>  // a template, so that what one L lacks is not compiled for it
TENFOLD_INLINE void soften_two(const float* s, const float* minus, Weight* p) {
  if constexpr (L::kRoundsWeights) {
    L::exp2_weights(s, minus, p);
  } else {
    Lanes::weights(vector_exp2(Lanes::add(Lanes::load(s), Lanes::set(*minus))), p);
    Lanes::weights(vector_exp2(Lanes::add(Lanes::load(s + kTile), Lanes::set(*minus))), p + kTile / 2);
  }
}

// The scores before these in the same place, which score_tiles softens to `p` before it overwrites them.
struct Former {
  const float* minus;
  Weight* p;
};

// s[row][token] = q[row] . k[token] for kRows queries and kTiles tiles. With kSoften, the exponentials of former scores
// run on pipes that the products leave idle.
template <int kRows, int kTiles, bool kAsk, bool kSoften = false>
void score_tiles(const Weight* q, const uint16_t* const* k, const uint16_t* const* v, int pairs, float* s,
                 Former former = {}) {
  Lanes::F sum[kRows][kTiles];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int t = 0; t < kTiles; ++t) sum[r][t] = Lanes::set(0.0f);
  int softened = 0;
  const auto soften_one = [&] {
    soften_two(s + softened * kSplit, former.minus + softened, former.p + softened * kProbabilityStride);
    ++softened;
  };
  for (int d = 0; d < pairs; d += 2) {
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      Lanes::Pairs key[kTiles];
      for (int t = 0; t < kTiles; ++t) {
        key[t] = Lanes::load_pairs(k[t] + (d + i) * 2 * kTile);
        ask_for<kAsk>(v[t] + (d + i) * 2 * kTile);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
        for (int t = 0; t < kTiles; ++t) sum[r][t] = Lanes::dot<kRows>(sum[r][t], key[t], q + r * kQueryStride + d + i);
    }
    if constexpr (kSoften)
      if (softened < kRows) soften_one();
  }
  if constexpr (kSoften)
    while (softened < kRows) soften_one();
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int t = 0; t < kTiles; ++t) Lanes::store(s + r * kSplit + t * kTile, sum[r][t]);
}

// The same for tiles [begin, end) and any number of rows up to kRows.
template <int kRows, bool kAsk>
void score_rows(int rows, const Weight* q, const Tiles& tiles, int begin, int end, int pairs, float* s) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return score_rows<kRows - 1, kAsk>(rows, q, tiles, begin, end, pairs, s);
  }
  constexpr int kTiles = Lanes::score_tiles(kRows);
  int t = begin;
  for (; t + kTiles <= end; t += kTiles)
    score_tiles<kRows, kTiles, kAsk>(q, tiles.k + t, tiles.v + t, pairs, s + t * kTile);
  if constexpr (kTiles > 2)
    for (; t + 2 <= end; t += 2) score_tiles<kRows, 2, kAsk>(q, tiles.k + t, tiles.v + t, pairs, s + t * kTile);
  for (; t < end; ++t) score_tiles<kRows, 1, kAsk>(q, tiles.k + t, tiles.v + t, pairs, s + t * kTile);
}

// Unseen tokens of the tiles that `seen` touches, and of their neighbours in pairs of tiles, get score -infinity and so
// weight 0. Returns the largest score of the others.
float largest_of(float* s, Range seen) {
  const Lanes::F never = Lanes::set(-__builtin_inff());
  const int first = seen.begin / kTile, last = (seen.end - 1) / kTile;
  const auto mask = [&](int t) {
    float* at = s + t * kTile;
    Lanes::store(at, Lanes::keep(Lanes::load(at), seen.begin - t * kTile, seen.end - t * kTile, -__builtin_inff()));
  };
  if (seen.begin % kTile != 0) mask(first);
  if (seen.end % kTile != 0) mask(last);
  if (first % 2 != 0) Lanes::store(s + (first - 1) * kTile, never);
  if (last % 2 == 0) Lanes::store(s + (last + 1) * kTile, never);
  Lanes::F even = never, odd = never;
  for (int t = first / 2 * 2; t <= last; t += 2) {
    even = Lanes::max(even, Lanes::load(s + t * kTile));
    odd = Lanes::max(odd, Lanes::load(s + (t + 1) * kTile));
  }
  return Lanes::max_of(Lanes::max(even, odd));
}

void soften(const float* s, Range seen, float minus, Weight* p) {
  for (int t = seen.begin / kTile / 2 * 2; t * kTile < seen.end; t += 2)
    soften_two(s + t * kTile, &minus, p + t * kTile / 2);
}

// Sum of p, as it was rounded.
float sum_of(const Weight* p, Range seen) {
  Lanes::F total = Lanes::set(0.0f);
  for (int t = seen.begin / kTile / 2 * 2; t * kTile < seen.end; t += 2)
    total = Lanes::add_weights(total, p + t * kTile / 2);
  return Lanes::sum(total);
}

// Token pairs [begin, end) of a split; `fresh`: sums begin at 0, else at what is there.
struct Pairs { int begin, end; bool fresh; };

// out[row][dims] += sum over token pairs of p[row] . v, for kRows queries and kVectors vectors of dims.
template <int kRows, int kVectors, bool kAsk>
void value_tile(const Weight* p, const Tiles& tiles, Pairs pairs, int head_dim, int dim, float* out) {
  Lanes::F sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int d = 0; d < kVectors; ++d)
      sum[r][d] = pairs.fresh ? Lanes::set(0.0f) : Lanes::load(out + r * head_dim + dim + d * 16);
  for (int pair = pairs.begin; pair < pairs.end;) {
    const int stop = (pair / 8 + 1) * 8 < pairs.end ? (pair / 8 + 1) * 8 : pairs.end;
    const size_t within = (static_cast<size_t>(pair % 8) * head_dim + dim) * 2;
    const uint16_t *at = tiles.v[pair / 8] + within, *next = tiles.next[pair / 8] + within;
    for (; pair < stop; ++pair, at += head_dim * 2, next += head_dim * 2) {
      Lanes::Pairs value[kVectors];
      for (int d = 0; d < kVectors; ++d) {
        value[d] = Lanes::load_pairs(at + d * 32);
        ask_for<kAsk>(next + d * 32);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
        for (int d = 0; d < kVectors; ++d)
          sum[r][d] = Lanes::dot<kRows>(sum[r][d], value[d], p + r * kProbabilityStride + pair);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int d = 0; d < kVectors; ++d) Lanes::store(out + r * head_dim + dim + d * 16, sum[r][d]);
}

template <int kRows, bool kAsk>
void value_rows(int rows, const Weight* p, const Tiles& tiles, Pairs pairs, int head_dim, float* out) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return value_rows<kRows - 1, kAsk>(rows, p, tiles, pairs, head_dim, out);
  }
  if (pairs.begin >= pairs.end && !pairs.fresh) return;
  constexpr int kWide = Lanes::kValueVectors;
  int dim = 0;
  for (; dim + kWide * 16 <= head_dim; dim += kWide * 16)
    value_tile<kRows, kWide, kAsk>(p, tiles, pairs, head_dim, dim, out);
  for (; dim < head_dim; dim += 16) value_tile<kRows, 1, kAsk>(p, tiles, pairs, head_dim, dim, out);
}

// The pair that a range's end cuts: the unseen token of it may hold anything, so its values are blanked.
template <bool kOdd>
void value_edge(const Weight* p, const Tiles& tiles, int pair, int head_dim, float* out) {
  const uint16_t* at = tiles.v[pair / 8] + static_cast<size_t>(pair % 8) * head_dim * 2;
  for (int d = 0; d < head_dim; d += 16) {
    Lanes::Pairs value = Lanes::load_pairs(at + d * 2);
    value = kOdd ? Lanes::only_odd(value) : Lanes::only_even(value);
    Lanes::store(out + d, Lanes::dot<1>(Lanes::load(out + d), value, p + pair));
  }
}

// out[row] = sum over row's visible tokens of p v: pairs that all rows see in full together, the others row by row.
template <bool kAsk>
void weigh_values(int rows, const Range* seen, const Weight* p, const Tiles& tiles, int head_dim, float* out) {
  Pairs common{0, kSplit / 2, true};
  for (int r = 0; r < rows; ++r) {
    const int begin = (seen[r].begin + 1) / 2, end = seen[r].end / 2;
    if (begin > common.begin) common.begin = begin;
    if (end < common.end) common.end = end;
  }
  if (common.begin >= common.end) common.begin = common.end = kSplit;  // nothing in common: all of it row by row
  for (int r = 0; r < rows; ++r)
    if (common.begin != seen[r].begin / 2 || seen[r].begin % 2 != 0) common.fresh = false;
  for (int r = 0; r < rows && !common.fresh; ++r) {
    const Weight* weights = p + r * kProbabilityStride;
    float* row = out + r * head_dim;
    const int begin = (seen[r].begin + 1) / 2, end = seen[r].end / 2;
    for (int d = 0; d < head_dim; d += 16) Lanes::store(row + d, Lanes::set(0.0f));
    if (seen[r].begin % 2 != 0) value_edge<true>(weights, tiles, seen[r].begin / 2, head_dim, row);
    value_rows<1, false>(1, weights, tiles, {begin, common.begin < end ? common.begin : end, false}, head_dim, row);
  }
  value_rows<Lanes::kValueRows, kAsk>(rows, p, tiles, common, head_dim, out);
  for (int r = 0; r < rows; ++r) {
    const Weight* weights = p + r * kProbabilityStride;
    float* row = out + r * head_dim;
    value_rows<1, false>(1, weights, tiles, {common.end, seen[r].end / 2, false}, head_dim, row);
    if (seen[r].end % 2 != 0) value_edge<false>(weights, tiles, seen[r].end / 2, head_dim, row);
  }
}

}  // namespace
}  // namespace tenfold
