// The arithmetic of attention over one split, written once over Lanes. Include a lanes_*.hpp first.
//
// Same bits: what a query computes is one chain of operations over its own visible keys, in order of position. Tiles
// share loads between queries; where a query's range ends inside a shared tile, the rest of its range is walked alone.
#pragma once
#include "attention_kernels.hpp"
#include "vector_math.hpp"

namespace tenfold {
namespace {

using Weight = Lanes::Weight;

// VDPBF16PS takes both factors in bfloat16. With 2 parts a factor is carried as its rounded value plus the remainder,
// at twice the products. K and V are bfloat16 already, which gives the outputs a relative error of 4e-3 to 1.3e-2
// (random keys with a few offset channels, scores of deviation 1 to 8). Rounding q and p once adds 4 to 12 % to that,
// at most 41 % where keys have no offsets, while q in two parts makes a long prefill 30 % slower. So one part each.
constexpr int kQueryParts = 1;
constexpr int kProbabilityParts = 1;

constexpr int kGroup = 12;  // queries taken through a split together: their scores fit the first-level cache
constexpr int kFewRows = 4;  // so few that waiting for memory outweighs arithmetic
constexpr int kWeightStride = 128;                            // pairs of the widest head, and pairs of a split
constexpr int kQueryStride = kQueryParts * kWeightStride;
constexpr int kProbabilityStride = kProbabilityParts * kWeightStride;
constexpr int kTilesPerSplit = kSplit / kTile;
static_assert(kMaxHeadDim / 2 == kWeightStride && kSplit / 2 == kWeightStride);

struct alignas(64) Workspace {
  Weight queries[kMaxQueries * kQueryStride];
  Weight probabilities[kGroup * kProbabilityStride];
  float scores[kGroup * kSplit];
};

struct Range { int begin, end; };  // visible tokens of a split, counted from its first

// Where the tiles [begin, end) of a split lie.
struct Tiles {
  int begin, end;
  const uint16_t *k[kTilesPerSplit], *v[kTilesPerSplit];
  const uint16_t* next[kTilesPerSplit];  // K tiles of the next split, or anything that may be asked for
};

// Where a few queries walk a long context, memory sets the pace. So that it is never idle, scoring a tile asks for the
// tile's values (`v` below), and weighing values asks for the keys of the next split (`next`).
template <int kRows>
TENFOLD_INLINE void ask_for(const uint16_t* p) {
  if constexpr (kRows <= kFewRows) __builtin_prefetch(p, 0, 2);  // to the second level: a split overflows the first
}

// s[row][token] = q[row] . k[token] for kRows queries and kTiles tiles.
template <int kRows, int kTiles>
void score_tiles(const Weight* q, const uint16_t* const* k, const uint16_t* const* v, int pairs, float* s) {
  Lanes::F sum[kRows][kTiles];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int t = 0; t < kTiles; ++t) sum[r][t] = Lanes::set(0.0f);
  for (int d = 0; d < pairs; ++d) {
    Lanes::Pairs key[kTiles];
    for (int t = 0; t < kTiles; ++t) {
      key[t] = Lanes::load_pairs(k[t] + d * 2 * kTile);
      ask_for<kRows>(v[t] + d * 2 * kTile);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
      for (int t = 0; t < kTiles; ++t)
        sum[r][t] = Lanes::dot<kQueryParts>(sum[r][t], key[t], q + r * kQueryStride + d);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int t = 0; t < kTiles; ++t) Lanes::store(s + r * kSplit + t * kTile, sum[r][t]);
}

// The same for the tiles in `tiles` and any number of rows up to kRows.
template <int kRows>
void score_rows(int rows, const Weight* q, const Tiles& tiles, int pairs, float* s) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return score_rows<kRows - 1>(rows, q, tiles, pairs, s);
  }
  constexpr int kTiles = Lanes::score_tiles(kRows);
  int t = tiles.begin;
  for (; t + kTiles <= tiles.end; t += kTiles)
    score_tiles<kRows, kTiles>(q, tiles.k + t, tiles.v + t, pairs, s + t * kTile);
  for (; t < tiles.end; ++t) score_tiles<kRows, 1>(q, tiles.k + t, tiles.v + t, pairs, s + t * kTile);
}

// p = 2^(s - max s) over the visible tokens; tokens of the same tiles outside get weight 0.
void soften(const float* s, Range seen, Weight* p, float* largest, float* sum) {
  const int first = seen.begin / kTile, last = (seen.end - 1) / kTile;
  const auto masked = [&](Lanes::F x, int tile, float other) {
    const int begin = seen.begin - tile * kTile, end = seen.end - tile * kTile;
    return begin <= 0 && end >= kTile ? x : Lanes::keep(x, begin, end, other);
  };
  Lanes::F top = Lanes::set(-__builtin_inff());
  for (int t = first; t <= last; ++t)
    top = Lanes::max(top, masked(Lanes::load(s + t * kTile), t, -__builtin_inff()));
  *largest = Lanes::max_of(top);
  top = Lanes::set(*largest);
  Lanes::F total = Lanes::set(0.0f);
  for (int t = first; t <= last; ++t) {
    const Lanes::F x = vector_exp2(Lanes::sub(Lanes::load(s + t * kTile), top));
    total = Lanes::add(total, Lanes::weights<kProbabilityParts>(masked(x, t, 0.0f), p + t * kTile / 2));
  }
  *sum = Lanes::sum(total);
}

// out[row][dims] += sum over token pairs [begin, end) of p[row] . v, for kRows queries and kVectors vectors of dims.
template <int kRows, int kVectors>
void value_tile(const Weight* p, const Tiles& tiles, int begin, int end, int head_dim, int dim, float* out) {
  Lanes::F sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int d = 0; d < kVectors; ++d) sum[r][d] = Lanes::load(out + r * head_dim + dim + d * 16);
  for (int pair = begin; pair < end;) {
    const int stop = (pair / 8 + 1) * 8 < end ? (pair / 8 + 1) * 8 : end;
    const size_t within = (static_cast<size_t>(pair % 8) * head_dim + dim) * 2;
    const uint16_t *at = tiles.v[pair / 8] + within, *next = tiles.next[pair / 8] + within;
    for (; pair < stop; ++pair, at += head_dim * 2, next += head_dim * 2) {
      Lanes::Pairs value[kVectors];
      for (int d = 0; d < kVectors; ++d) {
        value[d] = Lanes::load_pairs(at + d * 32);
        ask_for<kRows>(next + d * 32);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
        for (int d = 0; d < kVectors; ++d)
          sum[r][d] = Lanes::dot<kProbabilityParts>(sum[r][d], value[d], p + r * kProbabilityStride + pair);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int d = 0; d < kVectors; ++d) Lanes::store(out + r * head_dim + dim + d * 16, sum[r][d]);
}

template <int kRows>
void value_rows(int rows, const Weight* p, const Tiles& tiles, int begin, int end, int head_dim, float* out) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return value_rows<kRows - 1>(rows, p, tiles, begin, end, head_dim, out);
  }
  if (begin >= end) return;
  constexpr int kWide = Lanes::kValueVectors;
  int dim = 0;
  for (; dim + kWide * 16 <= head_dim; dim += kWide * 16)
    value_tile<kRows, kWide>(p, tiles, begin, end, head_dim, dim, out);
  for (; dim < head_dim; dim += 16) value_tile<kRows, 1>(p, tiles, begin, end, head_dim, dim, out);
}

// The pair that a range's end cuts: the unseen token of it may hold anything, so its values are blanked.
template <bool kOdd>
void value_edge(const Weight* p, const Tiles& tiles, int pair, int head_dim, float* out) {
  const uint16_t* at = tiles.v[pair / 8] + static_cast<size_t>(pair % 8) * head_dim * 2;
  for (int d = 0; d < head_dim; d += 16) {
    Lanes::Pairs value = Lanes::load_pairs(at + d * 2);
    value = kOdd ? Lanes::only_odd(value) : Lanes::only_even(value);
    Lanes::store(out + d, Lanes::dot<kProbabilityParts>(Lanes::load(out + d), value, p + pair));
  }
}

// out[row] = sum over row's visible tokens of p v: pairs that all rows see in full together, the others row by row.
void weigh_values(int rows, const Range* seen, const Weight* p, const Tiles& tiles, int head_dim, float* out) {
  Range common{0, kSplit / 2};
  for (int r = 0; r < rows; ++r) {
    const int begin = (seen[r].begin + 1) / 2, end = seen[r].end / 2;
    if (begin > common.begin) common.begin = begin;
    if (end < common.end) common.end = end;
  }
  if (common.begin >= common.end) common.begin = common.end = kSplit;  // nothing in common: all of it row by row
  for (int r = 0; r < rows; ++r) {
    const Weight* weights = p + r * kProbabilityStride;
    float* row = out + r * head_dim;
    const int begin = (seen[r].begin + 1) / 2, end = seen[r].end / 2;
    for (int d = 0; d < head_dim; d += 16) Lanes::store(row + d, Lanes::set(0.0f));
    if (seen[r].begin % 2 != 0) value_edge<true>(weights, tiles, seen[r].begin / 2, head_dim, row);
    value_rows<1>(1, weights, tiles, begin, common.begin < end ? common.begin : end, head_dim, row);
  }
  value_rows<Lanes::kValueRows>(rows, p, tiles, common.begin, common.end, head_dim, out);
  for (int r = 0; r < rows; ++r) {
    const Weight* weights = p + r * kProbabilityStride;
    float* row = out + r * head_dim;
    value_rows<1>(1, weights, tiles, common.end, seen[r].end / 2, head_dim, row);
    if (seen[r].end % 2 != 0) value_edge<false>(weights, tiles, seen[r].end / 2, head_dim, row);
  }
}

}  // namespace
}  // namespace tenfold
