#ifdef TENFOLD_AMX
#include <utility>

#include "ceilings.hpp"
#include "tiles_amx.hpp"

namespace tenfold {

const CeilingKernels& ceiling_kernels_avx512();

namespace {

constexpr double kRoundOperations = 4 * 2.0 * kTileRows * 16;  // four products, for each k of a tile's rows

TileShapes whole_tiles() {
  TileShapes shapes;
  for (int tile = 0; tile < 8; ++tile) shapes.set(tile, kTileRows);
  return shapes;
}

// Four sums, as a kernel keeps them, of two tiles of rows and two of weights that stay loaded.
template <class Product>
double rounds_of(int64_t rounds, int depth, const Product& product) {
  const TileSession session(whole_tiles());
  [&]<int... tile>(std::integer_sequence<int, tile...>) { (tile_zero<tile>(), ...); }(std::make_integer_sequence<int, 8>());
  for (int64_t r = 0; r < rounds; ++r) product();
  return kRoundOperations * depth * static_cast<double>(rounds);
}

double int8_rounds(int64_t rounds) {
  return rounds_of(rounds, 64, [] {
    tile_dot_int8<0, 4, 6>();
    tile_dot_int8<1, 4, 7>();
    tile_dot_int8<2, 5, 6>();
    tile_dot_int8<3, 5, 7>();
  });
}

double bf16_rounds(int64_t rounds) {
  return rounds_of(rounds, 32, [] {
    tile_dot<0, 4, 6>();
    tile_dot<1, 4, 7>();
    tile_dot<2, 5, 6>();
    tile_dot<3, 5, 7>();
  });
}

}  // namespace

const CeilingKernels& ceiling_kernels_amx() {
  const CeilingKernels& base = ceiling_kernels_avx512();
  static const CeilingKernels kernels{int8_rounds, bf16_rounds, base.fp32, base.read};
  return kernels;
}

}  // namespace tenfold
#endif
