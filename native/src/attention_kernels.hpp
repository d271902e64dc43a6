// What attention.cpp (the plan of a step) and attention_{generic,avx2,avx512,amx}.cpp (the arithmetic) agree on.
//
// A block of the cache holds, for each KV head, its K part, then its V part, both in tiles of 16 tokens:
//   K tile: [head_dim / 2][16 tokens][2 dims], so one vector of 16 pairs meets one pair of q in 16 scores;
//   V tile: [8 token pairs][head_dim][2 tokens], so one vector of 16 pairs meets one pair of p in 16 outputs.
#pragma once
#include "attention.hpp"

namespace tenfold {

constexpr int kTile = 16;         // tokens of a tile
constexpr int kSplit = 256;       // tokens of a split; part of the arithmetic, as splits are merged one by one
constexpr int kMaxHeadDim = 256;
constexpr int kMaxQueries = 128;  // query vectors (rows times heads) of a unit, of any variant

// Query rows [row, row + rows) of the step, at positions start.., times `heads` query heads from `head` on, all of KV
// head `kv_head`: the work that shares one walk over keys and values.
struct AttentionUnit {
  int row, rows, start;
  int kv_head, head, heads;
  const int32_t* blocks;
};

// What a thread walks after a split, so that memory may be asked for it in time; unit is null if nothing is known.
struct AttentionNext {
  const AttentionUnit* unit;
  int split;
};

// Results of a unit over one split or several: for each query the largest score (in units of log 2), the sum of
// 2^(score - largest), and that sum weighted by V. A query that saw no key has sum 0.
struct AttentionPartial {
  float* largest;  // [queries]
  float* sum;      // [queries]
  float* out;      // [queries][head_dim]
};

struct AttentionKernels {
  size_t workspace_bytes;  // a thread, aligned to 64
  int max_queries;         // of a unit
  int few_queries;         // units are not cut smaller than this to occupy threads
  // Writes K and V of one KV head for step rows [row, row + count), which are positions [start, start + count).
  void (*write)(const AttentionCall& call, const int32_t* blocks, int kv_head, int row, int count, int start);
  // Converts the unit's q into the workspace; the other calls for the unit follow.
  void (*prepare)(const AttentionCall& call, const AttentionUnit& unit, void* workspace);
  // Attention over split number `split` alone.
  void (*attend)(const AttentionCall& call, const AttentionUnit& unit, int split, const AttentionNext& next,
                 void* workspace, const AttentionPartial& result);
  // Merges the next split into `total`.
  void (*merge)(int queries, int head_dim, const AttentionPartial& next, const AttentionPartial& total);
  void (*finish)(const AttentionCall& call, const AttentionUnit& unit, const AttentionPartial& total);
};

const AttentionKernels& attention_generic();
#ifdef TENFOLD_X86
const AttentionKernels& attention_avx2();
const AttentionKernels& attention_avx512();
#endif
#ifdef TENFOLD_AMX
const AttentionKernels& attention_amx();
#endif

// Where things lie in the cache, in elements from the start of the layer's blocks.
struct KvLayout {
  int head_dim, block_size;
  size_t part, head, block;  // elements of K of a head, of a head, of a block

  explicit KvLayout(const KvGeometry& g)
      : head_dim(g.head_dim), block_size(g.block_size), part(static_cast<size_t>(g.head_dim) * g.block_size),
        head(2 * part), block(head * g.num_kv_heads) {}
  // The K tile of the 16 positions that include `position`; its V tile is `part` further on.
  size_t tile(const int32_t* blocks, int kv_head, int position) const {
    const size_t within = static_cast<size_t>(position % block_size / kTile) * kTile * head_dim;
    return static_cast<size_t>(blocks[position / block_size]) * block + kv_head * head + within;
  }
};

}  // namespace tenfold
