// AMX tiles: eight registers of up to 16 rows of 64 bytes. The wrappers order tile loads and stores with the rest of
// the code's memory, which the compilers' intrinsics leave open.
//
// D = A * B in bfloat16: A's rows are rows of activations, 32 k each; B's row p holds, for each of 16 columns, the pair
// of k 2p and 2p + 1; D is float32. For each element the products with even k are summed in order of p, likewise those
// with odd k, both from 0; then D += (even + odd). Denormals count as zero.
#pragma once
#include <immintrin.h>

#include <cstdint>

namespace tenfold {
namespace {

constexpr int kTileRows = 16, kTileBytes = 64;

// The shape of each tile register, as LDTILECFG takes it.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {};  // of a row
  uint8_t rows[16] = {};

  constexpr void set(int tile, int num_rows, int row_bytes = kTileBytes) {
    rows[tile] = static_cast<uint8_t>(num_rows);
    bytes[tile] = static_cast<uint16_t>(row_bytes);
  }
};
static_assert(sizeof(TileShapes) == 64);

// Tiles are configured while one of these lives. A thread's tiles are lost when it ends.
class TileSession {
 public:
  explicit TileSession(const TileShapes& shapes) { asm volatile("ldtilecfg %0" : : "m"(shapes) : "memory"); }
  ~TileSession() { asm volatile("tilerelease" : : : "memory"); }
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;
};

// Rows of the tile lie `stride` bytes apart.
template <int tile>
inline void tile_load(const void* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(tile) : "memory");
}
template <int tile>
inline void tile_store(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(tile) : "memory");
}
template <int tile>
inline void tile_zero() { asm volatile("tilezero %%tmm%c0" : : "i"(tile)); }
// The same of int8, four k to each 32 bits of A and B, exactly.
template <int sum, int a, int b>
inline void tile_dot_int8() { asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(a), "i"(b)); }
template <int sum, int a, int b>
inline void tile_dot() { asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(a), "i"(b)); }

}  // namespace
}  // namespace tenfold
