// Paged causal grouped-query attention over a bfloat16 KV cache; prefill and decode in one batch.
//
// Same bits: a query row's result depends on its position and the cached keys and values only. Keys are taken in tiles
// and in splits of fixed size counted from position 0; splits are merged in increasing order, whether one thread
// walked them or many computed them apart.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "isa.hpp"
#include "pool.hpp"

namespace tenfold {

struct KvGeometry {
  int num_kv_heads, head_dim, block_size;  // block_size: tokens a block, a multiple of 16
};

// bfloat16 elements of one block of one layer (K and V).
size_t kv_block_elements(const KvGeometry& g);

// Rows of one sequence in this step: rows [row, row + count) of the step are its positions [start, start + count).
struct AttentionSequence {
  int row, count, start;
  const int32_t* blocks;  // block table, covering positions [0, start + count)
};

struct AttentionCall {
  KvGeometry geometry;
  uint16_t* cache;        // this layer's blocks: block b starts at b * kv_block_elements
  const float* q; int q_ld;
  const float* k; int k_ld;
  const float* v; int v_ld;
  float* out; int out_ld;  // [rows][num_heads * head_dim]
  int num_heads;
  float scale;
  int window;              // 0: none
  const AttentionSequence* sequences;
  int num_sequences;
};

// Scratch that a step reuses over layers.
class AttentionScratch {
 public:
  AttentionScratch();
  ~AttentionScratch();
  struct State;
  State& state() { return *state_; }
 private:
  std::unique_ptr<State> state_;
};

// Writes K and V of all rows to the cache, then attends. Uses the pool itself, with as few dispatches as it can: one if
// every sequence brings few rows, else two. No sequence may read positions that another one writes in the same call.
// Positions after a row's own may hold anything. Throws std::invalid_argument (before it starts) for a head_dim that is
// not a multiple of 16 up to 256, a block_size that is not a multiple of 16, or heads that do not divide.
void attention(Isa isa, const AttentionCall& call, AttentionScratch& scratch, ThreadPool& pool);

}  // namespace tenfold
