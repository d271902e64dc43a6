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
        Lanes::weights<kQueryParts>(Lanes::mul(Lanes::load(q + d), scale), to + d / 2);
    }
}

// What query number i of the unit sees of the split that begins at position `base`; empty if begin >= end.
Range visible(const AttentionCall& call, const AttentionUnit& unit, int i, int base) {
  const int position = unit.start + i / unit.heads;
  const int begin = call.window > 0 && position - call.window + 1 > base ? position - call.window + 1 - base : 0;
  const int end = position + 1 - base;
  return {begin, end < kSplit ? end : kSplit};
}

void find_tiles(const AttentionCall& call, const AttentionUnit& unit, int base, int begin, int end, Tiles& tiles) {
  const KvLayout layout(call.geometry);
  tiles.begin = begin;
  tiles.end = end;
  for (int t = begin; t < end; ++t) {
    const int position = base + t * kTile, next = position + kSplit;
    tiles.k[t] = call.cache + layout.tile(unit.blocks, unit.kv_head, position);
    tiles.v[t] = tiles.k[t] + layout.part;
    const bool more = next < unit.start + unit.rows;  // the block table ends there
    tiles.next[t] = more ? call.cache + layout.tile(unit.blocks, unit.kv_head, next) : tiles.k[t];
  }
}

// Up to kGroup queries from number `first` on.
void attend_group(const AttentionCall& call, const AttentionUnit& unit, int first, int count, int base,
                  Workspace& work, const AttentionPartial& result) {
  const int head_dim = call.geometry.head_dim;
  Range seen[kGroup];
  int active = 0, active_end = 0;  // those that see some of this split follow one another
  for (int i = 0; i < count; ++i) {
    seen[i] = visible(call, unit, first + i, base);
    if (seen[i].begin < seen[i].end) {
      if (active_end == 0) active = i;
      active_end = i + 1;
    } else {
      result.largest[first + i] = 0.0f;
      result.sum[first + i] = 0.0f;
    }
  }
  if (active_end == 0) return;
  // Later queries begin and end no earlier.
  Tiles tiles;
  find_tiles(call, unit, base, seen[active].begin / kTile, (seen[active_end - 1].end + kTile - 1) / kTile, tiles);
  for (int i = active; i < active_end;) {
    const int rows = active_end - i < Lanes::kScoreRows ? active_end - i : Lanes::kScoreRows;
    score_rows<Lanes::kScoreRows>(rows, work.queries + (first + i) * kQueryStride, tiles, head_dim / 2,
                                  work.scores + i * kSplit);
    i += rows;
  }
  for (int i = active; i < active_end; ++i)
    soften(work.scores + i * kSplit, seen[i], work.probabilities + i * kProbabilityStride,
           result.largest + first + i, result.sum + first + i);
  for (int i = active; i < active_end;) {
    const int rows = active_end - i < Lanes::kValueRows ? active_end - i : Lanes::kValueRows;
    weigh_values(rows, seen + i, work.probabilities + i * kProbabilityStride, tiles, head_dim,
                 result.out + static_cast<size_t>(first + i) * head_dim);
    i += rows;
  }
}

void attend(const AttentionCall& call, const AttentionUnit& unit, int split, void* workspace,
            const AttentionPartial& result) {
  const int queries = unit.rows * unit.heads;
  for (int first = 0; first < queries; first += kGroup)
    attend_group(call, unit, first, queries - first < kGroup ? queries - first : kGroup, split * kSplit,
                 *static_cast<Workspace*>(workspace), result);
}

void merge(int queries, int head_dim, const AttentionPartial& next, const AttentionPartial& total) {
  for (int i = 0; i < queries; ++i) {
    if (next.sum[i] == 0.0f) continue;
    const float* from = next.out + static_cast<size_t>(i) * head_dim;
    float* to = total.out + static_cast<size_t>(i) * head_dim;
    if (total.sum[i] == 0.0f) {
      total.largest[i] = next.largest[i];
      total.sum[i] = next.sum[i];
      std::memcpy(to, from, static_cast<size_t>(head_dim) * sizeof(float));
      continue;
    }
    const Lanes::F old = Lanes::set(total.largest[i]), top = Lanes::max(old, Lanes::set(next.largest[i]));
    const Lanes::F keep = vector_exp2(Lanes::sub(old, top));
    const Lanes::F gain = vector_exp2(Lanes::sub(Lanes::set(next.largest[i]), top));
    const auto join = [&](Lanes::F a, Lanes::F b) { return Lanes::fma(b, gain, Lanes::mul(a, keep)); };
    for (int d = 0; d < head_dim; d += 16) Lanes::store(to + d, join(Lanes::load(to + d), Lanes::load(from + d)));
    Lanes::store_first(total.sum + i, join(Lanes::set(total.sum[i]), Lanes::set(next.sum[i])), 1);
    Lanes::store_first(total.largest + i, top, 1);
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
