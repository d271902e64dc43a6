// Sixteen floats as one AVX-512 vector; products of bfloat16 pairs by VDPBF16PS. See lanes_generic.hpp for what each
// operation means.
#pragma once
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12's own header leaves the unused operand of unmasked operations uninitialized, and warns of it where inlined.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#define TENFOLD_INLINE [[gnu::always_inline]] static inline

namespace tenfold {
namespace {

struct Lanes {
  using F = __m512;
  // Two bfloat16.
  using Weight = uint32_t;
  using Pairs = __m512i;
  static constexpr bool kRoundsWeights = true;
  static constexpr int kScoreRows = 12;
  static constexpr int kValueRows = 6;
  static constexpr int kValueVectors = 4;
  static constexpr int score_tiles(int rows) { return rows >= 7 ? 2 : 4; }

  TENFOLD_INLINE __mmask16 first(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
  TENFOLD_INLINE F set(float x) { return _mm512_set1_ps(x); }
  TENFOLD_INLINE F load(const float* p) { return _mm512_loadu_ps(p); }
  TENFOLD_INLINE void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  TENFOLD_INLINE F load_first(const float* p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }
  TENFOLD_INLINE void store_first(float* p, F x, int n) { _mm512_mask_storeu_ps(p, first(n), x); }
  TENFOLD_INLINE F add(F a, F b) { return _mm512_add_ps(a, b); }
  TENFOLD_INLINE F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  TENFOLD_INLINE F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  TENFOLD_INLINE F div(F a, F b) { return _mm512_div_ps(a, b); }
  TENFOLD_INLINE F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  TENFOLD_INLINE F max(F a, F b) { return _mm512_max_ps(a, b); }
  TENFOLD_INLINE F abs(F a) { return _mm512_abs_ps(a); }
  TENFOLD_INLINE F copy_sign(F size, F sign) {
    const __m512i bit = _mm512_set1_epi32(static_cast<int>(0x80000000u));
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(bit, _mm512_castps_si512(sign), _mm512_castps_si512(size), 0xca));
  }
  TENFOLD_INLINE F less(F a, F b, F yes, F no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
  }
  TENFOLD_INLINE F keep(F x, int begin, int end, float other) {
    const uint32_t below_end = end >= 16 ? 0xffffu : (1u << end) - 1u;
    const uint32_t below_begin = begin <= 0 ? 0u : (1u << begin) - 1u;
    return _mm512_mask_blend_ps(static_cast<__mmask16>(below_end & ~below_begin), _mm512_set1_ps(other), x);
  }
  TENFOLD_INLINE F round(F x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  TENFOLD_INLINE F scale2(F x, F n) { return _mm512_scalef_ps(x, n); }
  TENFOLD_INLINE float sum(F x) {
    const __m256 y = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 z = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_add_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_add_ss(z, _mm_movehdup_ps(z)));
  }
  TENFOLD_INLINE float max_of(F x) {
    const __m256 y = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 z = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_max_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_max_ss(z, _mm_movehdup_ps(z)));
  }

  TENFOLD_INLINE Pairs load_pairs(const uint16_t* p) { return _mm512_loadu_si512(p); }
  TENFOLD_INLINE Pairs only_even(Pairs p) { return _mm512_and_si512(p, _mm512_set1_epi32(0xffff)); }
  TENFOLD_INLINE Pairs only_odd(Pairs p) {
    return _mm512_and_si512(p, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
  }
  // With many rows the weight is an operand in memory, as its broadcast to a register would take an execution slot. With
  // few rows loads are what there are too many of.
  template <int kRows> TENFOLD_INLINE F dot(F sum, Pairs p, const Weight* w) {
    if constexpr (kRows <= 4)
      return _mm512_dpbf16_ps(sum, (__m512bh)p, (__m512bh)_mm512_set1_epi32(static_cast<int>(*w)));
    asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(p), "m"(*w));
    return sum;
  }
  TENFOLD_INLINE void weights(F x, Weight* w) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(w), (__m256i)_mm512_cvtneps_pbh(x));
  }
  // Adds 16 weights, that is 32 values.
  TENFOLD_INLINE F add_weights(F total, const Weight* w) {
    return _mm512_dpbf16_ps(total, (__m512bh)_mm512_loadu_si512(w), (__m512bh)_mm512_set1_epi32(0x3f803f80));
  }
  // 16 weights 2^(s + minus) of 32 scores; 0 for -infinity. The power's fraction is a cubic with a relative error of
  // 7.5e-5, which is lost in the rounding to bfloat16. In assembly, as a compiler would keep the constants in registers
  // that the products around it need, and so that every use has the same bits.
  TENFOLD_INLINE void exp2_weights(const float* s, const float* minus, Weight* w) {
    struct Sixteen { float value[16]; };
    struct Both { Weight value[16]; };
    static constexpr float kCubic[4] = {0.9999251961708069f, 0.6958335638046265f, 0.22606715559959412f,
                                        0.07802452147006989f};
    F x, f, p, q;
    asm("vmovups %[s0], %[x]\n\t"
        "vaddps %[minus]%{1to16%}, %[x], %[x]\n\t"
        "vreduceps $9, %[x], %[f]\n\t"  // x - floor(x)
        "vbroadcastss %[c2], %[p]\n\t"
        "vfmadd231ps %[c3]%{1to16%}, %[f], %[p]\n\t"
        "vfmadd213ps %[c1]%{1to16%}, %[f], %[p]\n\t"
        "vfmadd213ps %[c0]%{1to16%}, %[f], %[p]\n\t"
        "vscalefps %[x], %[p], %[p]\n\t"  // p 2^floor(x)
        "vmovups %[s1], %[x]\n\t"
        "vaddps %[minus]%{1to16%}, %[x], %[x]\n\t"
        "vreduceps $9, %[x], %[f]\n\t"
        "vbroadcastss %[c2], %[q]\n\t"
        "vfmadd231ps %[c3]%{1to16%}, %[f], %[q]\n\t"
        "vfmadd213ps %[c1]%{1to16%}, %[f], %[q]\n\t"
        "vfmadd213ps %[c0]%{1to16%}, %[f], %[q]\n\t"
        "vscalefps %[x], %[q], %[q]\n\t"
        "vcvtne2ps2bf16 %[p], %[q], %[q]\n\t"
        "vmovups %[q], %[w]"
        : [x] "=&v"(x), [f] "=&v"(f), [p] "=&v"(p), [q] "=&v"(q), [w] "=m"(*reinterpret_cast<Both*>(w))
        : [s0] "m"(*reinterpret_cast<const Sixteen*>(s)), [s1] "m"(*reinterpret_cast<const Sixteen*>(s + 16)),
          [minus] "m"(*minus), [c0] "m"(kCubic[0]), [c1] "m"(kCubic[1]), [c2] "m"(kCubic[2]), [c3] "m"(kCubic[3]));
  }
  TENFOLD_INLINE void to_bf16(F x, uint16_t* out) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), (__m256i)_mm512_cvtneps_pbh(x));
  }
};

}  // namespace
}  // namespace tenfold
