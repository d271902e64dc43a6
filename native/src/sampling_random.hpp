// Counter-based random numbers: the n-th number of a seed needs no state, so it cannot depend on the batch.
// Philox 4x32-10 of Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (2011).
#pragma once
#include <cstdint>

namespace tenfold {

// The draw-th uniform number of a seed, in [0, 1), with 53 random bits.
inline double uniform(uint64_t seed, uint64_t draw) {
  uint32_t c0 = uint32_t(draw), c1 = uint32_t(draw >> 32), c2 = 0, c3 = 0;
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(0xD2511F53u) * c0, b = uint64_t(0xCD9E8D57u) * c2;
    const uint32_t n0 = uint32_t(b >> 32) ^ c1 ^ k0, n2 = uint32_t(a >> 32) ^ c3 ^ k1;
    c1 = uint32_t(b);
    c3 = uint32_t(a);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return double((uint64_t(c0) << 32 | c1) >> 11) * 0x1p-53;
}

}  // namespace tenfold
