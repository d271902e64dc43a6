// The operations of AttentionKernels over Lanes; attention_{generic,avx2,avx512}.cpp compile them.
#pragma once
#include "attention_rows.hpp"
#include "attention_tile.hpp"

namespace tenfold {
namespace {

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

constexpr AttentionKernels kKernels{sizeof(Workspace), kUnitQueries, kGroup, write, prepare, attend, merge, finish};

}  // namespace
}  // namespace tenfold
