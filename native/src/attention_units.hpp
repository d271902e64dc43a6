// The operations of AttentionKernels over Lanes; attention_{generic,avx2,avx512}.cpp compile them.
#pragma once
#include "attention_tile.hpp"

namespace tenfold {
namespace {

void write(const AttentionCall& call, const int32_t* blocks, int kv_head, int row, int count, int start) {
  const KvLayout layout(call.geometry);
  const int head_dim = layout.head_dim;
  alignas(64) uint16_t k[kMaxHeadDim], v[kMaxHeadDim];
  for (int i = 0; i < count; ++i) {
    const int position = start + i, token = position % kTile;
    const float* from_k = call.k + static_cast<size_t>(row + i) * call.k_ld + kv_head * head_dim;
    const float* from_v = call.v + static_cast<size_t>(row + i) * call.v_ld + kv_head * head_dim;
    for (int d = 0; d < head_dim; d += 16) {
      Lanes::to_bf16(Lanes::load(from_k + d), k + d);
      Lanes::to_bf16(Lanes::load(from_v + d), v + d);
    }
    uint16_t* tile_k = call.cache + layout.tile(blocks, kv_head, position);
    uint16_t* to_k = tile_k + token * 2;
    uint16_t* to_v = tile_k + layout.part + static_cast<size_t>(token / 2) * head_dim * 2 + token % 2;
    for (int d = 0; d < head_dim; d += 2) std::memcpy(to_k + d * kTile, k + d, 2 * sizeof(uint16_t));
    for (int d = 0; d < head_dim; ++d) to_v[d * 2] = v[d];
  }
}

void prepare(const AttentionCall& call, const AttentionUnit& unit, void* workspace) {
  Weight* to = static_cast<Workspace*>(workspace)->queries;
  const int head_dim = call.geometry.head_dim;
  const Lanes::F scale = Lanes::set(call.scale * 1.4426950408889634f);  // scores in units of log 2
  for (int r = 0; r < unit.rows; ++r)
    for (int h = 0; h < unit.heads; ++h, to += kQueryStride) {
      const float* q = call.q + static_cast<size_t>(unit.row + r) * call.q_ld + (unit.head + h) * head_dim;
      for (int d = 0; d < head_dim; d += 16)
        Lanes::weights(Lanes::mul(Lanes::load(q + d), scale), to + d / 2);
    }
}

// What query number i of the unit sees of the split that begins at position `base`; empty if begin >= end.
Range visible(const AttentionCall& call, const AttentionUnit& unit, int i, int base) {
  const int position = unit.start + i / unit.heads;
  const int begin = call.window > 0 && position - call.window + 1 > base ? position - call.window + 1 - base : 0;
  const int end = position + 1 - base;
  return {begin, end < kSplit ? end : kSplit};
}

// The tiles [begin, end) of the split that begins at position `base`; their K parts to `k`.
void find_tiles(const AttentionCall& call, const AttentionUnit& unit, int base, int begin, int end,
                const uint16_t** k) {
  const KvLayout layout(call.geometry);
  const size_t tile = static_cast<size_t>(kTile) * layout.head_dim;
  const int tiles = layout.block_size / kTile;
  int block = (base / kTile + begin) / tiles, within = (base / kTile + begin) % tiles;
  for (int t = begin; t < end; ++t) {
    k[t] = call.cache + unit.blocks[block] * layout.block + unit.kv_head * layout.head + within * tile;
    if (++within == tiles) within = 0, ++block;
  }
}

// Tiles of split number `split` that some query of the unit sees.
Range visible_tiles(const AttentionCall& call, const AttentionUnit& unit, int split) {
  const Range first = visible(call, unit, 0, split * kSplit);
  const Range last = visible(call, unit, unit.rows * unit.heads - 1, split * kSplit);
  return {first.begin / kTile, (last.end + kTile - 1) / kTile};
}

// Up to kGroup queries of a unit from number `first` on, in one split.
struct Group {
  int first, count;
  Range seen[kGroup];
  int active, active_end;  // those that see some of the split follow one another
  bool whole() const {     // all see all of it
    return active == 0 && active_end == kGroup && seen[kGroup - 1].begin == 0 && seen[0].end == kSplit;
  }
};

Group group_of(const AttentionCall& call, const AttentionUnit& unit, int first, int base) {
  const int left = unit.rows * unit.heads - first;
  Group group{first, left < kGroup ? left : kGroup, {}, 0, 0};
  for (int i = 0; i < group.count; ++i) {
    group.seen[i] = visible(call, unit, first + i, base);
    if (group.seen[i].begin >= group.seen[i].end) continue;
    if (group.active_end == 0) group.active = i;
    group.active_end = i + 1;
  }
  return group;
}

template <bool kAsk>
void score_group(const Group& group, int head_dim, Workspace& work) {
  // Later queries begin and end no earlier.
  const int begin = group.seen[group.active].begin / kTile;
  const int end = (group.seen[group.active_end - 1].end + kTile - 1) / kTile;
  for (int i = group.active; i < group.active_end;) {
    const int rows = group.active_end - i < Lanes::kScoreRows ? group.active_end - i : Lanes::kScoreRows;
    score_rows<Lanes::kScoreRows, kAsk>(rows, work.queries + (group.first + i) * kQueryStride, work.tiles, begin, end,
                                        head_dim / 2, work.scores + i * kSplit);
    i += rows;
  }
}

// Scores of group `next`, while those of the group before it become probabilities. Both see the whole split.
void score_and_soften(const Group& next, int head_dim, Workspace& work) {
  if constexpr (Lanes::kScoreRows == kGroup)
    for (int t = 0; t < kTilesPerSplit; t += 2)
      score_tiles<kGroup, 2, false, true>(work.queries + next.first * kQueryStride, work.tiles.k + t, work.tiles.v + t,
                                          head_dim / 2, work.scores + t * kTile,
                                          {work.minus, work.probabilities + t * kTile / 2});
}

template <bool kAsk>
void weigh_group(const Group& group, int head_dim, Workspace& work, const AttentionPartial& result) {
  for (int i = group.active; i < group.active_end; ++i)
    result.sum[group.first + i] = sum_of(work.probabilities + i * kProbabilityStride, group.seen[i]);
  for (int i = group.active; i < group.active_end;) {
    const int rows = group.active_end - i < Lanes::kValueRows ? group.active_end - i : Lanes::kValueRows;
    weigh_values<kAsk>(rows, group.seen + i, work.probabilities + i * kProbabilityStride, work.tiles, head_dim,
                       result.out + static_cast<size_t>(group.first + i) * head_dim);
    i += rows;
  }
}

template <bool kAsk>
void attend_groups(const AttentionCall& call, const AttentionUnit& unit, int base, Workspace& work,
                   const AttentionPartial& result) {
  const int queries = unit.rows * unit.heads, head_dim = call.geometry.head_dim;
  bool scored = false;
  Group group = group_of(call, unit, 0, base);
  for (;;) {
    if (group.active_end > 0 && !scored) score_group<kAsk>(group, head_dim, work);
    for (int i = 0; i < group.count; ++i) {
      const bool sees = i >= group.active && i < group.active_end;
      result.largest[group.first + i] = sees ? largest_of(work.scores + i * kSplit, group.seen[i]) : 0.0f;
      if (!sees) result.sum[group.first + i] = 0.0f;
      work.minus[i] = -result.largest[group.first + i];
    }
    const bool last = group.first + kGroup >= queries;
    const Group next = last ? Group{} : group_of(call, unit, group.first + kGroup, base);
    scored = Lanes::kScoreRows == kGroup && group.whole() && !last && next.whole();
    if (scored) {
      score_and_soften(next, head_dim, work);
    } else {
      for (int i = group.active; i < group.active_end; ++i)
        soften(work.scores + i * kSplit, group.seen[i], work.minus[i], work.probabilities + i * kProbabilityStride);
    }
    weigh_group<kAsk>(group, head_dim, work, result);
    if (last) return;
    group = next;
  }
}

void attend(const AttentionCall& call, const AttentionUnit& unit, int split, const AttentionNext& next,
            void* workspace, const AttentionPartial& result) {
  Workspace& work = *static_cast<Workspace*>(workspace);
  const Range here = visible_tiles(call, unit, split);
  find_tiles(call, unit, split * kSplit, here.begin, here.end, work.tiles.k);
  const size_t part = KvLayout(call.geometry).part;
  for (int t = here.begin; t < here.end; ++t) work.tiles.next[t] = work.tiles.v[t] = work.tiles.k[t] + part;
  if (unit.rows * unit.heads > kGroup) return attend_groups<false>(call, unit, split * kSplit, work, result);
  if (next.unit != nullptr) {
    const Range there = visible_tiles(call, *next.unit, next.split);
    find_tiles(call, *next.unit, next.split * kSplit, there.begin, there.end, work.tiles.next);
  }
  attend_groups<true>(call, unit, split * kSplit, work, result);
}

// The factors of both sides of up to 16 queries, whose sums and largest scores it joins.
void join_sums(int count, const AttentionPartial& next, const AttentionPartial& total, float* keep, float* gain) {
  const Lanes::F zero = Lanes::set(0.0f);
  const Lanes::F old_top = Lanes::load_first(total.largest, count), new_top = Lanes::load_first(next.largest, count);
  const Lanes::F old_sum = Lanes::load_first(total.sum, count), new_sum = Lanes::load_first(next.sum, count);
  const Lanes::F top = Lanes::max(old_top, new_top);
  const Lanes::F kept = vector_exp2(Lanes::sub(old_top, top)), gained = vector_exp2(Lanes::sub(new_top, top));
  Lanes::store(keep, kept);
  Lanes::store(gain, gained);
  const auto joined = [&](Lanes::F both, Lanes::F mine, Lanes::F theirs) {  // sums of 0 have nothing to say
    return Lanes::less(zero, new_sum, Lanes::less(zero, old_sum, both, theirs), mine);
  };
  const Lanes::F sum = Lanes::fma(new_sum, gained, Lanes::mul(old_sum, kept));
  Lanes::store_first(total.largest, joined(top, old_top, new_top), count);
  Lanes::store_first(total.sum, joined(sum, old_sum, new_sum), count);
}

void merge(int queries, int head_dim, const AttentionPartial& next, const AttentionPartial& total) {
  float keep[kMaxQueries + 15], gain[kMaxQueries + 15];
  bool seen[kMaxQueries], also[kMaxQueries];
  for (int i = 0; i < queries; ++i) seen[i] = total.sum[i] != 0.0f, also[i] = next.sum[i] != 0.0f;
  for (int i = 0; i < queries; i += 16)
    join_sums(queries - i < 16 ? queries - i : 16, {next.largest + i, next.sum + i, nullptr},
              {total.largest + i, total.sum + i, nullptr}, keep + i, gain + i);
  for (int i = 0; i < queries; ++i) {
    if (!also[i]) continue;
    const float* from = next.out + static_cast<size_t>(i) * head_dim;
    float* to = total.out + static_cast<size_t>(i) * head_dim;
    if (!seen[i]) {
      std::memcpy(to, from, static_cast<size_t>(head_dim) * sizeof(float));
      continue;
    }
    const Lanes::F a = Lanes::set(keep[i]), b = Lanes::set(gain[i]);
    for (int d = 0; d < head_dim; d += 16)
      Lanes::store(to + d, Lanes::fma(Lanes::load(from + d), b, Lanes::mul(Lanes::load(to + d), a)));
  }
}

void finish(const AttentionCall& call, const AttentionUnit& unit, const AttentionPartial& total) {
  const int head_dim = call.geometry.head_dim;
  for (int r = 0, i = 0; r < unit.rows; ++r)
    for (int h = 0; h < unit.heads; ++h, ++i) {
      const float* from = total.out + static_cast<size_t>(i) * head_dim;
      float* to = call.out + static_cast<size_t>(unit.row + r) * call.out_ld + (unit.head + h) * head_dim;
      const Lanes::F sum = Lanes::set(total.sum[i]);
      for (int d = 0; d < head_dim; d += 16) Lanes::store(to + d, Lanes::div(Lanes::load(from + d), sum));
    }
}

constexpr AttentionKernels kKernels{sizeof(Workspace), write, prepare, attend, merge, finish};

}  // namespace
}  // namespace tenfold
