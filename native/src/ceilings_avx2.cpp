#ifdef TENFOLD_X86
#include <immintrin.h>

#include "ceilings.hpp"

namespace tenfold {
namespace {

constexpr int kChains = 12;  // enough independent chains to hide a multiply-add's latency

double int8_rounds(int64_t rounds) {
  __m256i sums[kChains], u = _mm256_set1_epi8(3), s = _mm256_set1_epi8(-5), ones = _mm256_set1_epi16(1);
  for (auto& sum : sums) sum = _mm256_setzero_si256();
  for (int64_t r = 0; r < rounds; ++r)
    for (auto& sum : sums) {
      asm volatile("" : "+x"(u));
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(u, s), ones));
    }
  for (auto& sum : sums) asm volatile("" : : "x"(sum));
  return 2.0 * 32 * kChains * static_cast<double>(rounds);
}

double fp32_rounds(int64_t rounds) {
  __m256 sums[kChains], a = _mm256_set1_ps(1.0001f), b = _mm256_set1_ps(0.5f);
  for (auto& sum : sums) sum = _mm256_setzero_ps();
  for (int64_t r = 0; r < rounds; ++r)
    for (auto& sum : sums) sum = _mm256_fmadd_ps(a, b, sum);
  for (auto& sum : sums) asm volatile("" : : "x"(sum));
  return 2.0 * 8 * kChains * static_cast<double>(rounds);
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
