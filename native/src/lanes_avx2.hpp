// Sixteen floats as two AVX2 vectors. See lanes_generic.hpp for what each operation means.
#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#define TENFOLD_INLINE [[gnu::always_inline]] static inline

namespace tenfold {
namespace {

struct Lanes {
  struct F { __m256 a, b; };
  struct Weight { float even, odd; };
  struct Pairs { F even, odd; };
  static constexpr bool kRoundsWeights = false;
  static constexpr int kScoreRows = 4;
  static constexpr int kValueRows = 4;
  static constexpr int kValueVectors = 1;
  static constexpr int score_tiles(int rows) { return rows == 1 ? 2 : 1; }

  TENFOLD_INLINE __m256i first(int n) {  // mask of lanes below n
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  TENFOLD_INLINE F set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  TENFOLD_INLINE F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  TENFOLD_INLINE void store(float* p, F x) { _mm256_storeu_ps(p, x.a); _mm256_storeu_ps(p + 8, x.b); }
  TENFOLD_INLINE F load_first(const float* p, int n) {
    return {_mm256_maskload_ps(p, first(n)), n > 8 ? _mm256_maskload_ps(p + 8, first(n - 8)) : _mm256_setzero_ps()};
  }
  TENFOLD_INLINE void store_first(float* p, F x, int n) {
    _mm256_maskstore_ps(p, first(n), x.a);
    if (n > 8) _mm256_maskstore_ps(p + 8, first(n - 8), x.b);
  }
  TENFOLD_INLINE F add(F x, F y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  TENFOLD_INLINE F sub(F x, F y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
  TENFOLD_INLINE F mul(F x, F y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  TENFOLD_INLINE F div(F x, F y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
  TENFOLD_INLINE F fma(F x, F y, F z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
  }
  TENFOLD_INLINE F max(F x, F y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
  TENFOLD_INLINE F abs(F x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
  }
  TENFOLD_INLINE F copy_sign(F size, F sign) {
    const __m256 bit = _mm256_set1_ps(-0.0f);
    return {_mm256_or_ps(_mm256_andnot_ps(bit, size.a), _mm256_and_ps(bit, sign.a)),
            _mm256_or_ps(_mm256_andnot_ps(bit, size.b), _mm256_and_ps(bit, sign.b))};
  }
  TENFOLD_INLINE F less(F x, F y, F yes, F no) {
    return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
            _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
  }
  TENFOLD_INLINE F keep(F x, int begin, int end, float other) {
    const __m256 o = _mm256_set1_ps(other);
    const __m256i a = _mm256_andnot_si256(first(begin), first(end));
    const __m256i b = _mm256_andnot_si256(first(begin - 8), first(end - 8));
    return {_mm256_blendv_ps(o, x.a, _mm256_castsi256_ps(a)), _mm256_blendv_ps(o, x.b, _mm256_castsi256_ps(b))};
  }
  TENFOLD_INLINE F round(F x) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.a, kNearest), _mm256_round_ps(x.b, kNearest)};
  }
  TENFOLD_INLINE __m256 scale2(__m256 x, __m256 n) {
    n = _mm256_min_ps(_mm256_max_ps(n, _mm256_set1_ps(-250.0f)), _mm256_set1_ps(250.0f));
    const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), bias = _mm256_set1_epi32(127);
    const __m256i rest = _mm256_sub_epi32(whole, half);
    x = _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)));
    return _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23)));
  }
  TENFOLD_INLINE F scale2(F x, F n) { return {scale2(x.a, n.a), scale2(x.b, n.b)}; }
  TENFOLD_INLINE float sum(F x) {
    const __m256 y = _mm256_add_ps(x.a, x.b);
    __m128 z = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_add_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_add_ss(z, _mm_movehdup_ps(z)));
  }
  TENFOLD_INLINE float max_of(F x) {
    const __m256 y = _mm256_max_ps(x.a, x.b);
    __m128 z = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_max_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_max_ss(z, _mm_movehdup_ps(z)));
  }

  TENFOLD_INLINE Pairs load_pairs(const uint16_t* p) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 16));
    const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
    return {{_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(b, 16))},
            {_mm256_castsi256_ps(_mm256_and_si256(a, high)), _mm256_castsi256_ps(_mm256_and_si256(b, high))}};
  }
  TENFOLD_INLINE Pairs only_even(Pairs p) { return {p.even, set(0.0f)}; }
  TENFOLD_INLINE Pairs only_odd(Pairs p) { return {set(0.0f), p.odd}; }
  template <int kRows> TENFOLD_INLINE F dot(F sum, Pairs p, const Weight* w) {
    return fma(p.odd, set(w->odd), fma(p.even, set(w->even), sum));
  }
  TENFOLD_INLINE void weights(F x, Weight* w) { store(reinterpret_cast<float*>(w), x); }
  TENFOLD_INLINE F add_weights(F total, const Weight* w) {
    const float* held = reinterpret_cast<const float*>(w);
    return add(total, add(load(held), load(held + 16)));
  }
  TENFOLD_INLINE __m256i to_bf16(__m256 x) {  // one to a 32-bit lane
    const __m256i bits = _mm256_castps_si256(x), top = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
    __m256i r = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    const __m256i exponent = _mm256_and_si256(bits, _mm256_set1_epi32(0x7f800000));
    const __m256i zero = _mm256_cmpeq_epi32(exponent, _mm256_setzero_si256());
    r = _mm256_blendv_epi8(r, _mm256_and_si256(top, _mm256_set1_epi32(0x8000)), zero);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(r, _mm256_or_si256(top, _mm256_set1_epi32(0x40)), nan);
  }
  TENFOLD_INLINE void to_bf16(F x, uint16_t* out) {
    const __m256i both = _mm256_permute4x64_epi64(_mm256_packus_epi32(to_bf16(x.a), to_bf16(x.b)), 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), both);
  }
};

}  // namespace
}  // namespace tenfold
