// Included before each source of llama.cpp (see scripts/peers): the AMX intrinsics of older GCCs (12 at least) do not
// tell the compiler that they read memory. It then drops the stores of the tile configuration but for 8 bytes, as dead,
// and the first tile instruction is an illegal one; stores of a tile before its load could move or go as well.
#if defined(__AMX_TILE__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>

#undef _tile_loadconfig
#define _tile_loadconfig(config) __asm__ volatile("ldtilecfg\t%0" ::"m"(*(const char(*)[64])(config)) : "memory")

#undef _tile_loadd
#define _tile_loadd(tile, base, stride) PEERS_TILE_LOADD(tile, base, stride)  // so that a macro as `tile` is expanded
#define PEERS_TILE_LOADD(tile, base, stride)                        \
    __asm__ volatile("tileloadd\t(%0,%1,1), %%tmm" #tile            \
                     :                                              \
                     : "r"((const void*)(base)), "r"((long)(stride)) \
                     : "memory")
#endif
