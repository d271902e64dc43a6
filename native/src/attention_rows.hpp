// What all variants of attention share over Lanes: the cache's writing, what a query sees, merging of splits. Include a
// lanes_*.hpp first.
#pragma once
#include "attention_kernels.hpp"
#include "vector_math.hpp"

namespace tenfold {
namespace {

constexpr int kTilesPerSplit = kSplit / kTile;

struct Range { int begin, end; };  // visible tokens of a split, counted from its first

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

// What the query at `position` sees of the split that begins at position `base`; empty if begin >= end.
Range visible_at(const AttentionCall& call, int position, int base) {
  const int begin = call.window > 0 && position - call.window + 1 > base ? position - call.window + 1 - base : 0;
  const int end = position + 1 - base;
  return {begin, end < kSplit ? end : kSplit};
}
// The same for query number i of the unit.
Range visible(const AttentionCall& call, const AttentionUnit& unit, int i, int base) {
  return visible_at(call, unit.start + i / unit.heads, base);
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
      for (int d = 0; d < head_dim; d += 16) {
        // A weight of 0 times an unseen value is 0 of either sign: it may only reach an output that is itself 0.
        Lanes::store(to + d, Lanes::add(Lanes::div(Lanes::load(from + d), sum), Lanes::set(0.0f)));
      }
    }
}

}  // namespace
}  // namespace tenfold
