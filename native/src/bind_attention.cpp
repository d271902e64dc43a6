// Attention for tests and tools: arrays in, array out, every size and block number checked.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "attention_kernels.hpp"
#include "bf16.hpp"

namespace nb = nanobind;

namespace tenfold {
namespace {

using Cache = nb::ndarray<uint16_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void need(bool holds, const char* sentence) {
  if (!holds) throw std::invalid_argument(sentence);
}

KvGeometry geometry_of(const Cache& cache, int num_kv_heads, int head_dim, int block_size) {
  need(num_kv_heads > 0 && head_dim > 0 && block_size > 0, "KV geometry takes positive numbers.");
  const KvGeometry g{num_kv_heads, head_dim, block_size};
  need(cache.shape(1) == kv_block_elements(g), "cache needs kv_block_elements elements a block.");
  return g;
}

// Sequences as (row, count, start), with their block tables as rows of `blocks`.
std::vector<AttentionSequence> sequences_of(const Table& sequences, const Table& blocks, size_t rows,
                                            size_t num_blocks, int block_size) {
  need(sequences.shape(1) == 3, "sequences needs three columns: row, count, start.");
  need(blocks.shape(0) == sequences.shape(0), "blocks needs one row a sequence.");
  std::vector<AttentionSequence> result;
  for (size_t i = 0; i < sequences.shape(0); ++i) {
    const int32_t row = sequences(i, 0), count = sequences(i, 1), start = sequences(i, 2);
    need(row >= 0 && count >= 0 && start >= 0, "sequences holds a negative number.");
    need(static_cast<size_t>(row) + count <= rows, "sequences names rows that q does not have.");
    const size_t used = (static_cast<size_t>(start) + count + block_size - 1) / block_size;
    need(used <= blocks.shape(1), "blocks does not cover a sequence's positions.");
    for (size_t b = 0; b < used; ++b)
      need(blocks(i, b) >= 0 && static_cast<size_t>(blocks(i, b)) < num_blocks, "blocks names one outside the cache.");
    result.push_back({row, count, start, blocks.data() + i * blocks.shape(1)});
  }
  return result;
}

void run_attention(const std::string& isa, Cache cache, int num_kv_heads, int head_dim, int block_size, Matrix q,
                   Matrix k, Matrix v, Table sequences, Table blocks, float scale, int window, int threads,
                   Out out) {
  const KvGeometry g = geometry_of(cache, num_kv_heads, head_dim, block_size);
  const size_t rows = q.shape(0), kv = static_cast<size_t>(num_kv_heads) * head_dim;
  need(q.shape(1) % head_dim == 0, "q needs a whole number of heads.");
  need(k.shape(0) == rows && v.shape(0) == rows && k.shape(1) == kv && v.shape(1) == kv,
       "k and v need q's rows and num_kv_heads * head_dim columns.");
  need(out.shape(0) == rows && out.shape(1) == q.shape(1), "out needs the shape of q.");
  need(window >= 0 && threads >= 1, "attention needs window >= 0 and threads >= 1.");
  const Isa chosen = parse_isa(isa);
  const auto list = sequences_of(sequences, blocks, rows, cache.shape(0), block_size);
  const AttentionCall call{g, cache.data(), q.data(), static_cast<int>(q.shape(1)), k.data(), static_cast<int>(kv),
                           v.data(), static_cast<int>(kv), out.data(), static_cast<int>(q.shape(1)),
                           static_cast<int>(q.shape(1)) / head_dim, scale, window, list.data(),
                           static_cast<int>(list.size())};
  nb::gil_scoped_release free;
  ThreadPool pool(threads);
  AttentionScratch scratch;
  attention(chosen, call, scratch, pool);
}

void read_kv(Cache cache, int num_kv_heads, int head_dim, int block_size, int block, int slot, Out k, Out v) {
  const KvGeometry g = geometry_of(cache, num_kv_heads, head_dim, block_size);
  need(block >= 0 && static_cast<size_t>(block) < cache.shape(0), "block is outside the cache.");
  need(slot >= 0 && slot < block_size, "slot is outside the block.");
  for (const Out* part : {&k, &v})
    need(part->shape(0) == static_cast<size_t>(num_kv_heads) && part->shape(1) == static_cast<size_t>(head_dim),
         "k and v need the shape (num_kv_heads, head_dim).");
  const KvLayout layout(g);
  const int32_t table[1] = {block};
  for (int h = 0; h < num_kv_heads; ++h) {
    const uint16_t* tile = cache.data() + layout.tile(table, h, slot);
    const int token = slot % kTile;
    for (int d = 0; d < head_dim; ++d) {
      const uint16_t at_k = tile[(d / 2 * kTile + token) * 2 + d % 2];
      const uint16_t at_v = tile[layout.part + (static_cast<size_t>(token / 2) * head_dim + d) * 2 + token % 2];
      k(h, d) = bf16_to_float(at_k);
      v(h, d) = bf16_to_float(at_v);
    }
  }
}

}  // namespace

void bind_attention(nb::module_& m) {
  m.def("kv_block_elements", [](int num_kv_heads, int head_dim, int block_size) {
    return kv_block_elements(KvGeometry{num_kv_heads, head_dim, block_size});
  }, nb::arg("num_kv_heads"), nb::arg("head_dim"), nb::arg("block_size"),
        "bfloat16 elements of one block of one layer (K and V).");
  m.def("attention", &run_attention, nb::arg("isa"), nb::arg("cache"), nb::arg("num_kv_heads"), nb::arg("head_dim"),
        nb::arg("block_size"), nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("sequences"), nb::arg("blocks"),
        nb::arg("scale"), nb::arg("window"), nb::arg("threads"), nb::arg("out"),
        "Writes k and v to the cache, then attends; sequences are rows of (row, count, start), window 0 is none.");
  m.def("read_kv", &read_kv, nb::arg("cache"), nb::arg("num_kv_heads"), nb::arg("head_dim"), nb::arg("block_size"),
        nb::arg("block"), nb::arg("slot"), nb::arg("k"), nb::arg("v"),
        "Reads K and V of one slot of one block into float32 arrays of (num_kv_heads, head_dim).");
}

}  // namespace tenfold
