#ifdef TENFOLD_X86
#include <immintrin.h>

#include "ceilings.hpp"

namespace tenfold {
namespace {

// Sixteen independent chains hide a dot product's latency. The instructions are written out, because compilers keep an
// array of accumulators in memory here, which would measure loads and stores.
#define TENFOLD_CHAINS(instruction)                                                                          \
  asm volatile(instruction " %[b], %[a], %%zmm0\n\t" instruction " %[b], %[a], %%zmm1\n\t"                   \
               instruction " %[b], %[a], %%zmm2\n\t" instruction " %[b], %[a], %%zmm3\n\t"                   \
               instruction " %[b], %[a], %%zmm4\n\t" instruction " %[b], %[a], %%zmm5\n\t"                   \
               instruction " %[b], %[a], %%zmm6\n\t" instruction " %[b], %[a], %%zmm7\n\t"                   \
               instruction " %[b], %[a], %%zmm8\n\t" instruction " %[b], %[a], %%zmm9\n\t"                   \
               instruction " %[b], %[a], %%zmm10\n\t" instruction " %[b], %[a], %%zmm11\n\t"                 \
               instruction " %[b], %[a], %%zmm12\n\t" instruction " %[b], %[a], %%zmm13\n\t"                 \
               instruction " %[b], %[a], %%zmm14\n\t" instruction " %[b], %[a], %%zmm15"                     \
               :                                                                                             \
               : [a] "v"(a), [b] "v"(b)                                                                      \
               : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",    \
                 "xmm11", "xmm12", "xmm13", "xmm14", "xmm15")

constexpr double kChains = 16;

double int8_rounds(int64_t rounds) {
  const __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(-5);
  for (int64_t r = 0; r < rounds; ++r) TENFOLD_CHAINS("vpdpbusd");
  return 2.0 * 64 * kChains * static_cast<double>(rounds);
}

double bf16_rounds(int64_t rounds) {
  const __m512i a = _mm512_set1_epi16(0x3fc0), b = _mm512_set1_epi16(0x3f00);  // 1.5 and 0.5
  for (int64_t r = 0; r < rounds; ++r) TENFOLD_CHAINS("vdpbf16ps");
  return 2.0 * 32 * kChains * static_cast<double>(rounds);
}

double fp32_rounds(int64_t rounds) {
  const __m512 a = _mm512_set1_ps(1.0001f), b = _mm512_set1_ps(0.5f);
  for (int64_t r = 0; r < rounds; ++r) TENFOLD_CHAINS("vfmadd231ps");
  return 2.0 * 16 * kChains * static_cast<double>(rounds);
}

uint64_t read_all(const uint8_t* data, int64_t bytes) {
  __m512i sums[4];
  for (auto& sum : sums) sum = _mm512_setzero_si512();
  for (int64_t i = 0; i < bytes; i += 256)
    for (int j = 0; j < 4; ++j) sums[j] = _mm512_xor_si512(sums[j], _mm512_loadu_si512(data + i + 64 * j));
  const __m512i all = _mm512_xor_si512(_mm512_xor_si512(sums[0], sums[1]), _mm512_xor_si512(sums[2], sums[3]));
  return static_cast<uint64_t>(_mm512_reduce_add_epi64(all));
}

}  // namespace

const CeilingKernels& ceiling_kernels_avx512() {
  static const CeilingKernels kernels{int8_rounds, bf16_rounds, fp32_rounds, read_all};
  return kernels;
}

}  // namespace tenfold
#endif
