#ifdef TENFOLD_AMX
// Attention with AMX tiles. Scores of 16 queries and 16 tokens are one tile, as are 16 outputs of 16 queries. Queries
// go in blocks of up to two tiles, tokens in steps of 32. Tiles 0 to 5 have as many rows as a tile of queries.
//
// Sapphire Rapids hardly overlaps AVX-512 with tile products: making weights of one block's scores between the products
// of another was no faster than one after the other.
//
// Same bits: steps begin at multiples of 32 from a split's start, whatever the size of the cache's blocks. A query that
// does not see a token gives it the weight 0; the token's values then add 0, as they are finite: values that nobody in
// the unit sees are blanked, and values that are not finite and that some see are weighed query by query.
#include "lanes_avx512.hpp"
#include "attention_rows.hpp"
#include "attention_amx.hpp"

namespace tenfold {
namespace {

void prepare(const AttentionCall& call, const AttentionUnit& unit, void* workspace) {
  Workspace& work = *static_cast<Workspace*>(workspace);
  const int head_dim = call.geometry.head_dim;
  const Cut cut(unit);
  const Lanes::F scale = Lanes::set(call.scale * 1.4426950408889634f);  // scores in units of log 2
  for (int tile = 0; tile < cut.tiles; ++tile)
    for (int r = 0; r < cut.rows; ++r) {
      const int i = cut.first(tile) + r;
      const float* q = call.q + static_cast<size_t>(unit.row + i / unit.heads) * call.q_ld +
                       (unit.head + i % unit.heads) * head_dim;
      uint16_t* to = work.queries + tile * kQueryTile + r * 32;
      for (int d = 0; d < head_dim; d += 16)
        Lanes::to_bf16(Lanes::mul(Lanes::load(q + d), scale), to + d / 32 * kTileElements + d % 32);
      if (head_dim % 32 != 0)
        Lanes::to_bf16(Lanes::set(0.0f), to + head_dim / 32 * kTileElements + 16);
    }
}

// Keys and values of the tokens that the unit sees, as operands of tile products. What the unit sees of a split is
// `seen`; `common` is what all its queries see of it.
class Operands {
 public:
  Operands(const AttentionCall& call, const AttentionUnit& unit, int base, Workspace& work)
      : work_(work), head_dim_(call.geometry.head_dim) {
    const Range first = visible(call, unit, 0, base), last = visible(call, unit, unit.rows * unit.heads - 1, base);
    seen = {first.begin, last.end};
    common = {last.begin, first.end};
    const int begin = seen.begin / kTile, end = (seen.end + kTile - 1) / kTile;
    find_tiles(call, unit, base, begin, end, k_);
    const size_t part = KvLayout(call.geometry).part;
    for (int t = begin; t < end; ++t) v_[t] = k_[t] + part;
    // Of a step's two tiles one may lie where the unit sees nothing: any key does, as its score is not looked at.
    if (begin % 2 != 0) k_[begin - 1] = k_[begin], v_[begin - 1] = v_[begin];
    if (end % 2 != 0) k_[end] = k_[end - 1], v_[end] = v_[end - 1];
    for (int step = begin / 2; step * kStep < seen.end; ++step) {
      if (head_dim_ % 32 != 0) complete_keys(2 * step), complete_keys(2 * step + 1);
      const bool whole = seen.begin <= step * kStep && seen.end >= (step + 1) * kStep;
      const bool apart = v_[2 * step + 1] != v_[2 * step] + kTile * head_dim_;
      const bool by_all = common.begin <= step * kStep && common.end >= (step + 1) * kStep;
      if (whole && (!apart || by_all))
        values[step] = apart ? nullptr : v_[2 * step];
      else
        values[step] = copy(step, seen);
      if (!by_all && !finite(values[step])) broken = true;
    }
  }

  // Joins the values of steps whose tiles lie apart.
  void join() {
    for (int step = seen.begin / kStep; step * kStep < seen.end; ++step) {
      if (values[step] != nullptr) continue;
      join_dims(step, 0, head_dim_, values_of(step));
      values[step] = values_of(step);
    }
  }
  // The same of dims [dim, dim + dims) of a step.
  void join_dims(int step, int dim, int dims, uint16_t* to) const {
    for (int half = 0; half < 2; ++half) {
      const uint16_t* from = v_[2 * step + half] + dim * 2;
      for (int pair = 0; pair < kTile / 2; ++pair, from += head_dim_ * 2)
        for (int d = 0; d < dims; d += 16, to += 32) _mm512_storeu_si512(to, _mm512_loadu_si512(from + d * 2));
    }
  }

  // Dims [32 d, 32 d + 32) of a tile of keys.
  const uint16_t* keys(int tile, int d) const {
    return (d * 32 + 16 < head_dim_ ? k_[tile] + d * kTileElements : work_.last_keys + tile * kTileElements);
  }
  // Values of a step with those of tokens outside `range` blanked.
  const uint16_t* copy(int step, Range range) const {
    uint16_t* to = values_of(step);
    for (int pair = 0; pair < kStep / 2; ++pair) {
      const int token = step * kStep + pair * 2;
      const uint32_t even = token >= range.begin && token < range.end ? 0xffffu : 0;
      const uint32_t odd = token + 1 >= range.begin && token + 1 < range.end ? 0xffff0000u : 0;
      const __m512i mask = _mm512_set1_epi32(static_cast<int>(even | odd));
      const uint16_t* from = v_[token / kTile] + static_cast<size_t>(pair % 8) * 2 * head_dim_;
      for (int d = 0; d < head_dim_; d += 16)
        _mm512_storeu_si512(to + (pair * head_dim_ + d) * 2,
                            _mm512_and_si512(mask, _mm512_loadu_si512(from + d * 2)));
    }
    return to;
  }
  const uint16_t* raw_values(int tile) const { return v_[tile]; }

  Range seen, common;
  const uint16_t* values[kSteps];
  bool broken = false;  // some queries, but not all, see a value that is not finite

 private:
  uint16_t* values_of(int step) const { return work_.values + static_cast<size_t>(step) * kStep * head_dim_; }
  // The last 16 dims, with as many zeros after them.
  void complete_keys(int tile) {
    uint16_t* to = work_.last_keys + tile * kTileElements;
    std::memcpy(to, k_[tile] + head_dim_ / 32 * kTileElements, kTileElements);
    std::memset(to + kTileElements / 2, 0, kTileElements);
  }
  bool finite(const uint16_t* v) const {
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    __mmask32 found = 0;
    for (int i = 0; i < kStep * head_dim_; i += 32)
      found |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(_mm512_loadu_si512(v + i), exponent), exponent);
    return found == 0;
  }

  Workspace& work_;
  int head_dim_;
  const uint16_t *k_[kTilesPerSplit], *v_[kTilesPerSplit];
};

// One or two tiles of queries, and the steps that some of them see.
struct Block {
  int tile;        // number of its first
  int begin, end;  // steps
  Range common;    // what all its queries see
};

// A walk of a unit over one split.
template <int kA>
class Walk {
 public:
  Walk(const AttentionCall& call, const AttentionUnit& unit, int base, Workspace& work, const AttentionPartial& result)
      : call_(call), unit_(unit), base_(base), head_dim_(call.geometry.head_dim),
        dims_((head_dim_ + 31) / 32), work_(work), result_(result), cut_(unit), operands_(call, unit, base, work) {}

  void run(const AttentionNext& next) {
    if (kA == 1) find_next(next);
    if (kA > 1) operands_.join();  // all blocks use them; a single one joins them piece by piece
    Block blocks[kMaxQueryTiles];
    int count = 0;
    for (int tile = 0; tile < cut_.tiles; tile += kA) {
      const Range first = seen(tile, 0), last = seen(tile + kA - 1, cut_.rows - 1);
      for (int a = 0; a < kA; ++a) forget(tile + a);
      if (first.begin < last.end) blocks[count++] = {tile, first.begin / kStep, (last.end + kStep - 1) / kStep,
                                                    {last.begin, first.end}};
    }
    const TileSession session(shapes());
    if (operands_.broken) return run_apart(blocks, count);
    for (int i = 0; i < count; ++i) {
      score(blocks[i]);
      soften(blocks[i]);
      weigh(blocks[i]);
    }
  }

 private:
  // Range that a tile's row sees.
  Range seen(int tile, int row) const { return visible(call_, unit_, cut_.first(tile) + row, base_); }
  void forget(int tile) const {
    for (int r = 0; r < cut_.rows; ++r)
      result_.largest[cut_.first(tile) + r] = result_.sum[cut_.first(tile) + r] = 0.0f;
  }
  TileShapes shapes() const {
    TileShapes shapes;
    for (int tile = 0; tile < 6; ++tile) shapes.set(tile, cut_.rows);
    for (int tile = 6; tile < 8; ++tile) shapes.set(tile, kTileRows);
    return shapes;
  }
  void find_next(const AttentionNext& next) {
    for (int t = 0; t < kTilesPerSplit; ++t) next_[t] = work_.queries;  // anything may be asked for
    if (next.unit == nullptr) return;
    const Range there = visible_tiles(call_, *next.unit, next.split);
    find_tiles(call_, *next.unit, next.split * kSplit, there.begin, there.end, next_);
  }

  void score(const Block& block) {
    const uint16_t* q = work_.queries + block.tile * kQueryTile;
    if constexpr (kA == 1) load_queries(q, 0);
    for (int step = block.begin; step < block.end; ++step) {
      if constexpr (kA == 1)
        score_one(q, step);
      else
        score_two(q, step);
      each<2>([&](auto b) {
        each<kA>([&](auto a) { tile_store<2 * a + b>(scores_of(a, 2 * step + b), kTileBytes); });
      });
    }
  }
  float* scores_of(int a, int tile) const { return work_.scores + a * kScoreTiles + tile * kTile * kTile; }
  void score_two(const uint16_t* q, int step) {
    each<4>([&](auto c) { tile_zero<c>(); });
    for (int d = 0; d < dims_; ++d) {
      each<2>([&](auto a) { tile_load<4 + a>(q + a * kQueryTile + d * kTileElements, kTileBytes); });
      each<2>([&](auto b) {
        tile_load<6 + b>(operands_.keys(2 * step + b, d), kTileBytes);
        each<2>([&](auto a) { tile_dot<2 * a + b, 4 + a, 6 + b>(); });
      });
    }
  }
  // With one tile of queries, up to 128 dims of it stay loaded.
  void score_one(const uint16_t* q, int step) {
    each<2>([&](auto c) { tile_zero<c>(); });
    for (int first = 0; first < dims_; first += 4) {
      if (dims_ > 4) load_queries(q, first);
      each<4>([&](auto i) {
        const int d = first + i;
        if (d >= dims_) return;
        each<2>([&](auto b) {
          tile_load<6 + b>(operands_.keys(2 * step + b, d), kTileBytes);
          tile_dot<b, 2 + i, 6 + b>();
          ask_for(operands_.raw_values(2 * step + b) + d * kTileElements, 16);
        });
      });
    }
  }
  void load_queries(const uint16_t* q, int first) {
    each<4>([&](auto i) {
      if (first + i < dims_) tile_load<2 + i>(q + (first + i) * kTileElements, kTileBytes);
    });
  }

  // Weights 2^(score - largest) from scores.
  void soften(const Block& block) {
    for (int a = 0; a < kA; ++a) {
      for (int step = block.begin; step < block.end; ++step)
        if (block.common.begin > step * kStep || block.common.end < (step + 1) * kStep) blank(block.tile + a, a, step);
      find_largest(block, a);
      for (int step = block.begin; step < block.end; ++step) {
        const float *s = scores_of(a, 2 * step), *t = scores_of(a, 2 * step + 1);
        uint16_t* p = work_.weights + a * kWeightTiles + step * kTileElements;
        for (int r = 0; r < cut_.rows; ++r) {
          const Lanes::F shift = Lanes::set(work_.minus[r]);
          const Lanes::F first = coarse_exp2(Lanes::add(Lanes::load(s + r * kTile), shift));
          const Lanes::F second = coarse_exp2(Lanes::add(Lanes::load(t + r * kTile), shift));
          _mm512_storeu_si512(p + r * kStep, (__m512i)_mm512_cvtne2ps_pbh(second, first));
        }
      }
    }
  }

  // Unseen tokens of a step get score -infinity and so weight 0.
  void blank(int tile, int a, int step) {
    const __m512i order = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    int row = cut_.first(tile) / unit_.heads, head = cut_.first(tile) % unit_.heads;
    for (int r = 0; r < cut_.rows; ++r) {
      const Range range = visible_at(call_, unit_.start + row, base_);
      const __m512i begin = _mm512_set1_epi32(range.begin), end = _mm512_set1_epi32(range.end);
      for (int half = 0; half < 2; ++half) {
        float* s = scores_of(a, 2 * step + half) + r * kTile;
        const __m512i token = _mm512_add_epi32(order, _mm512_set1_epi32(step * kStep + half * kTile));
        const __mmask16 keep = _mm512_cmpge_epi32_mask(token, begin) & _mm512_cmplt_epi32_mask(token, end);
        Lanes::store(s, _mm512_mask_blend_ps(keep, Lanes::set(-__builtin_inff()), Lanes::load(s)));
      }
      if (++head == unit_.heads) head = 0, ++row;
    }
  }

  // The largest scores of a tile of queries; 0 of a query that sees nothing.
  void find_largest(const Block& block, int a) {
    const Lanes::F never = Lanes::set(-__builtin_inff()), zero = Lanes::set(0.0f);
    Lanes::F top[kTileRows];
    for (int r = 0; r < kTileRows; ++r) {
      Lanes::F even = never, odd = never;
      for (int t = 2 * block.begin; t < 2 * block.end && r < cut_.rows; t += 2) {
        even = Lanes::max(even, Lanes::load(scores_of(a, t) + r * kTile));
        odd = Lanes::max(odd, Lanes::load(scores_of(a, t + 1) + r * kTile));
      }
      top[r] = Lanes::max(even, odd);
    }
    Lanes::F largest = largest_of_each(top);
    largest = _mm512_mask_blend_ps(_mm512_cmp_ps_mask(largest, never, _CMP_EQ_OQ), largest, zero);
    Lanes::store(work_.minus, Lanes::sub(zero, largest));
    Lanes::store_first(result_.largest + cut_.first(block.tile + a), largest, cut_.rows);
  }

  void weigh(const Block& block) {
    int dim = 0;
    if constexpr (kA == 1) {
      if (head_dim_ >= 64) weigh_dims<4, true>(block, 0), dim = 64;
      for (; dim + 64 <= head_dim_; dim += 64) weigh_dims<4, false>(block, dim);
    }
    if (kA == 2 || dim == 0) weigh_dims<0, true>(block, 0);
    for (; dim + 32 <= head_dim_; dim += 32) weigh_dims<2, false>(block, dim);
    if (dim < head_dim_) weigh_dims<1, false>(block, dim);
  }

  // Outputs of kDims * 16 dims from `dim` on; with kSum the sums of weights, which are their products with ones.
  template <int kDims, bool kSum>
  void weigh_dims(const Block& block, int dim) {
    const uint16_t* p = work_.weights;
    constexpr int kSums = kA * kDims, kWeights = 6 - kA;
    each<kSums + (kSum ? kA : 0)>([&](auto c) { tile_zero<c>(); });
    if constexpr (kSum) tile_load<7>(kOnes, 0);
    if (kA == 1) join_ahead<kDims>(block.begin, dim);
    for (int step = block.begin; step < block.end; ++step) {
      if (kA == 1 && step + 1 < block.end) join_ahead<kDims>(step + 1, dim);
      const bool joined = kA == 1 && operands_.values[step] == nullptr;
      const uint16_t* v = joined ? work_.joined[step % 2] : operands_.values[step] + dim * 2;
      const int64_t stride = joined ? kDims * kTileBytes : head_dim_ * 4;
      each<kA>([&](auto a) {
        tile_load<kWeights + a>(p + a * kWeightTiles + step * kTileElements, kTileBytes);
        if constexpr (kSum) tile_dot<kSums + a, kWeights + a, 7>();
      });
      each<kDims>([&](auto d) {
        constexpr int kValues = kSum ? 6 : 6 + d % 2;
        tile_load<kValues>(v + d * 32, stride);
        each<kA>([&](auto a) { tile_dot<kDims * a + d, kWeights + a, kValues>(); });
        if constexpr (kA == 1)
          for (int tile = 2 * step; tile < 2 * step + 2; ++tile) ask_for(next_[tile] + (dim + d * 16) * kTile, 8);
      });
    }
    each<kA>([&](auto a) {
      float* out = out_of(block.tile + a, 0) + dim;
      each<kDims>([&](auto d) { tile_store<kDims * a + d>(out + d * 16, head_dim_ * 4); });
      if constexpr (kSum) {
        tile_store<kSums + a>(work_.sums, kTileBytes);
        for (int r = 0; r < cut_.rows; ++r) result_.sum[cut_.first(block.tile + a) + r] = work_.sums[r * kTile];
      }
    });
  }

  template <int kDims>
  void join_ahead(int step, int dim) {
    if (operands_.values[step] == nullptr) operands_.join_dims(step, dim, kDims * 16, work_.joined[step % 2]);
  }

  // Query by query, each with the values blanked that it does not see.
  void run_apart(const Block* blocks, int count) {
    for (int i = 0; i < count; ++i) {
      const Block& block = blocks[i];
      score(block);
      soften(block);
      for (int a = 0; a < kA; ++a)
        for (int r = 0; r < cut_.rows; ++r) {
          const Range range = seen(block.tile + a, r);
          for (int step = block.begin; step < block.end; ++step) operands_.values[step] = operands_.copy(step, range);
          weigh(block);
          std::memcpy(work_.kept + (a * kTile + r) * head_dim_, out_of(block.tile + a, r), head_dim_ * sizeof(float));
        }
      for (int a = 0; a < kA; ++a)
        for (int r = 0; r < cut_.rows; ++r)
          std::memcpy(out_of(block.tile + a, r), work_.kept + (a * kTile + r) * head_dim_, head_dim_ * sizeof(float));
    }
  }
  float* out_of(int tile, int row) const {
    return result_.out + static_cast<size_t>(cut_.first(tile) + row) * head_dim_;
  }

  const AttentionCall& call_;
  const AttentionUnit& unit_;
  int base_, head_dim_, dims_;  // dims_: steps of 32 dims
  Workspace& work_;
  const AttentionPartial& result_;
  Cut cut_;
  Operands operands_;
  const uint16_t* next_[kTilesPerSplit];
};

void attend(const AttentionCall& call, const AttentionUnit& unit, int split, const AttentionNext& next,
            void* workspace, const AttentionPartial& result) {
  Workspace& work = *static_cast<Workspace*>(workspace);
  if (Cut(unit).tiles == 1)
    Walk<1>(call, unit, split * kSplit, work, result).run(next);
  else
    Walk<2>(call, unit, split * kSplit, work, result).run(next);
}

constexpr AttentionKernels kKernels{sizeof(Workspace), kMaxQueries, 32, write, prepare, attend, merge, finish};

}  // namespace

const AttentionKernels& attention_amx() { return kKernels; }

}  // namespace tenfold
#endif
