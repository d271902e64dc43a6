#ifdef TENFOLD_X86
#include <immintrin.h>

#include "ceilings.hpp"

namespace tenfold {
namespace {

// Written out, because compilers keep an array of accumulators in memory here. Ten chains hide a multiply-add's latency.
#define TENFOLD_FMA(i) "vfmadd231ps %[b], %[a], %%ymm" #i "\n\t"
// An int8 dot product without VNNI is three instructions.
#define TENFOLD_DOT(i)                    \
  "vpmaddubsw %[b], %[a], %%ymm15\n\t"     \
  "vpmaddwd %[ones], %%ymm15, %%ymm14\n\t" \
  "vpaddd %%ymm14, %%ymm" #i ", %%ymm" #i "\n\t"

double int8_rounds(int64_t rounds) {
  const __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(-5), ones = _mm256_set1_epi16(1);
  for (int64_t r = 0; r < rounds; ++r)
    asm volatile(TENFOLD_DOT(0) TENFOLD_DOT(1) TENFOLD_DOT(2) TENFOLD_DOT(3)
                 :
                 : [a] "x"(a), [b] "x"(b), [ones] "x"(ones)
                 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm14", "xmm15");
  return 2.0 * 32 * 4 * static_cast<double>(rounds);
}

double fp32_rounds(int64_t rounds) {
  const __m256 a = _mm256_set1_ps(1.0001f), b = _mm256_set1_ps(0.5f);
  for (int64_t r = 0; r < rounds; ++r)
    asm volatile(TENFOLD_FMA(0) TENFOLD_FMA(1) TENFOLD_FMA(2) TENFOLD_FMA(3) TENFOLD_FMA(4) TENFOLD_FMA(5)
                     TENFOLD_FMA(6) TENFOLD_FMA(7) TENFOLD_FMA(8) TENFOLD_FMA(9)
                 :
                 : [a] "x"(a), [b] "x"(b)
                 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9");
  return 2.0 * 8 * 10 * static_cast<double>(rounds);
}

uint64_t read_all(const uint8_t* data, int64_t bytes) {
  __m256i sums[4];
  for (auto& sum : sums) sum = _mm256_setzero_si256();
  for (int64_t i = 0; i < bytes; i += 128)
    for (int j = 0; j < 4; ++j)
      sums[j] = _mm256_xor_si256(sums[j], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + i + 32 * j)));
  const __m256i all = _mm256_xor_si256(_mm256_xor_si256(sums[0], sums[1]), _mm256_xor_si256(sums[2], sums[3]));
  return static_cast<uint64_t>(_mm256_extract_epi64(all, 0) ^ _mm256_extract_epi64(all, 3));
}

}  // namespace

const CeilingKernels& ceiling_kernels_avx2() {
  static const CeilingKernels kernels{int8_rounds, fp32_rounds, fp32_rounds, read_all};
  return kernels;
}

}  // namespace tenfold
#endif
