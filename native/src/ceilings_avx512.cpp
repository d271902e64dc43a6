#ifdef TENFOLD_X86
#include <immintrin.h>

#include "ceilings.hpp"

namespace tenfold {
namespace {

constexpr int kChains = 16;  // enough independent chains to hide a dot product's latency

double int8_rounds(int64_t rounds) {
  __m512i sums[kChains];
  const __m512i u = _mm512_set1_epi8(3), s = _mm512_set1_epi8(-5);
  for (auto& sum : sums) sum = _mm512_setzero_si512();
  for (int64_t r = 0; r < rounds; ++r)
    for (auto& sum : sums) sum = _mm512_dpbusd_epi32(sum, u, s);
  for (auto& sum : sums) asm volatile("" : : "v"(sum));
  return 2.0 * 64 * kChains * static_cast<double>(rounds);
}

double bf16_rounds(int64_t rounds) {
  __m512 sums[kChains];
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1.5f), _mm512_set1_ps(0.5f));
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  for (int64_t r = 0; r < rounds; ++r)
    for (auto& sum : sums) sum = _mm512_dpbf16_ps(sum, a, a);
  for (auto& sum : sums) asm volatile("" : : "v"(sum));
  return 2.0 * 32 * kChains * static_cast<double>(rounds);
}

double fp32_rounds(int64_t rounds) {
  __m512 sums[kChains];
  const __m512 a = _mm512_set1_ps(1.0001f), b = _mm512_set1_ps(0.5f);
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  for (int64_t r = 0; r < rounds; ++r)
    for (auto& sum : sums) sum = _mm512_fmadd_ps(a, b, sum);
  for (auto& sum : sums) asm volatile("" : : "v"(sum));
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
