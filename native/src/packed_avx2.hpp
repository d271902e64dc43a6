// Packed weights read into AVX2 vectors: codes, scales and minimums of 8 columns, half a panel.
#pragma once
#include <immintrin.h>

#include <cstring>

#include "linear_driver.hpp"
#include "packed_weight.hpp"

namespace tenfold {
namespace {

inline __m256i load(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }

inline __m256i broadcast_word(const uint8_t* p) {
  int32_t word;
  std::memcpy(&word, p, 4);
  return _mm256_set1_epi32(word);
}

inline __m256 broadcast_float(const uint8_t* p) { return _mm256_castsi256_ps(broadcast_word(p)); }

inline __m256 load_f16(const uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

inline __m128i load_bytes(const uint8_t* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }

inline __m256 float_of_u8(__m128i bytes) { return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)); }

// `width` bits of quad `quad` of a plane, moved to bit `to`.
inline __m256i take_plane(__m256i plane, int width, int quad, int to) {
  const __m256i mask = _mm256_set1_epi8(static_cast<char>((1 << width) - 1));
  const __m256i low = _mm256_and_si256(_mm256_srl_epi16(plane, _mm_cvtsi32_si128(width * quad)), mask);
  return _mm256_sll_epi16(low, _mm_cvtsi32_si128(to));
}

// Codes of a group, unsigned, as [quad][column][4]; 8-bit codes become signed.
template <int bits>
inline void unpack_group(const uint8_t* planes, uint8_t* out) {
  const uint8_t* high = planes + (bits == 3 ? 128 : 256);
#pragma GCC unroll 8
  for (int quad = 0; quad < 8; ++quad)
#pragma GCC unroll 2
    for (int half = 0; half < 64; half += 32) {
      __m256i codes;
      if constexpr (bits == 8) codes = _mm256_xor_si256(load(planes + quad * 64 + half), _mm256_set1_epi8(-128));
      else if constexpr (bits <= 3) codes = take_plane(load(planes + quad / 4 * 64 + half), 2, quad % 4, 0);
      else codes = take_plane(load(planes + quad / 2 * 64 + half), 4, quad % 2, 0);
      if constexpr (bits == 3 || bits == 5)
        codes = _mm256_or_si256(codes, take_plane(load(high + half), 1, quad, bits - 1));
      if constexpr (bits == 6)
        codes = _mm256_or_si256(codes, take_plane(load(high + quad / 4 * 64 + half), 2, quad % 4, 4));
      _mm256_store_si256(reinterpret_cast<__m256i*>(out + quad * 64 + half), codes);
    }
}

struct Scales { __m256 scale[2][2], minimum[2][2]; };  // [sub][half of the panel]

// `minimum` of super blocks comes negated.
template <LayoutId id>
inline void group_scales(const uint8_t* subs, int group, const __m256 scale[2], const __m256 minimum[2], Scales& out) {
  constexpr Layout layout = layout_of(id);
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    if constexpr (!layout.is_super()) {
      out.scale[0][h] = scale[h];
      out.minimum[0][h] = minimum[h];
    } else if constexpr (layout.sub == 32) {
      out.scale[0][h] = _mm256_mul_ps(scale[h], float_of_u8(load_bytes(subs + group * 32 + 8 * h)));
      out.minimum[0][h] = _mm256_mul_ps(minimum[h], float_of_u8(load_bytes(subs + group * 32 + 16 + 8 * h)));
    } else {
      for (int s = 0; s < 2; ++s) {
        const __m128i bytes = load_bytes(subs + (group * 2 + s) * 16 + 8 * h);
        if constexpr (layout.min) {
          const __m128i mask = _mm_set1_epi8(15);
          out.scale[s][h] = _mm256_mul_ps(scale[h], float_of_u8(_mm_and_si128(bytes, mask)));
          out.minimum[s][h] =
              _mm256_mul_ps(minimum[h], float_of_u8(_mm_and_si128(_mm_srli_epi16(bytes, 4), mask)));
        } else {
          out.scale[s][h] = _mm256_mul_ps(scale[h], _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)));
        }
      }
    }
  }
}

// Of half h of pair p: the groups' scales in units as pairs of 16 bits, the second group's low.
template <LayoutId id>
inline __m256i pair_scales(const uint8_t* head, int p, int h) {
  if constexpr (layout_of(id).is_fine()) return load(head + 64 + p * 64 + 32 * h);
  const __m256i first = _mm256_cvtepu8_epi32(load_bytes(head + 64 + p * 64 + 8 * h));
  return _mm256_or_si256(_mm256_slli_epi32(first, 16), _mm256_cvtepu8_epi32(load_bytes(head + 96 + p * 64 + 8 * h)));
}

// cut_to_bf16(8 * scale - minimum) of group g.
inline __m256 k4_minimums(const uint8_t* head, int g, int h) {
  const uint8_t* subs = head + 64 + g * 32 + 8 * h;
  const __m256 whole = _mm256_mul_ps(load_f16(head + 16 * h), float_of_u8(load_bytes(subs)));
  const __m256 taken = _mm256_mul_ps(load_f16(head + 32 + 16 * h), float_of_u8(load_bytes(subs + 16)));
  const __m256 middle = _mm256_sub_ps(_mm256_mul_ps(whole, _mm256_set1_ps(8.f)), taken);
  const __m256i cut = _mm256_add_epi32(_mm256_castps_si256(middle), _mm256_set1_epi32(0x8000));
  return _mm256_castsi256_ps(_mm256_and_si256(cut, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
}

// `width` bits of element `e` of a group, from its plane; half a panel.
template <int width>
inline __m256i element_bits(const uint8_t* plane, uint32_t e) {
  const uint32_t quad = e / 4, per_vector = 8 / width;
  const __m128i by = _mm_cvtsi32_si128(static_cast<int>(e % 4 * 8 + width * (quad % per_vector)));
  return _mm256_and_si256(_mm256_srl_epi32(load(plane + quad / per_vector * 64), by), _mm256_set1_epi32((1 << width) - 1));
}

template <int bits>
inline __m256i element_codes(const uint8_t* planes, uint32_t e) {
  if constexpr (bits == 8) return element_bits<8>(planes, e);
  const __m256i low = bits <= 3 ? element_bits<2>(planes, e) : element_bits<4>(planes, e);
  if constexpr (bits == 3) return _mm256_or_si256(low, _mm256_slli_epi32(element_bits<1>(planes + 128, e), 2));
  if constexpr (bits == 5) return _mm256_or_si256(low, _mm256_slli_epi32(element_bits<1>(planes + 256, e), 4));
  if constexpr (bits == 6) return _mm256_or_si256(low, _mm256_slli_epi32(element_bits<2>(planes + 256, e), 4));
  return low;
}

// Signed 16 bits of group g out of pairs, the second group's low.
inline __m256i half_of_pair(const uint8_t* pairs, uint32_t g) {
  const __m256i both = load(pairs + g / 2 * 64);
  return _mm256_srai_epi32(g % 2 == 0 ? both : _mm256_slli_epi32(both, 16), 16);
}

// The values of an element's weights in half h of the columns.
template <LayoutId id>
inline __m256 half_column(const Place<id>& place, int h) {
  constexpr Layout layout = layout_of(id);
  const uint8_t* head = place.head;
  const __m256i raw = element_codes<layout.bits>(place.planes + 32 * h, place.element);
  const __m256 codes = _mm256_cvtepi32_ps(_mm256_sub_epi32(raw, _mm256_set1_epi32(layout.offset)));
  __m256 scale, minimum = _mm256_setzero_ps();
  if constexpr (layout.is_fine()) {
    const __m256i units = half_of_pair(head + 64 + 32 * h, place.group);
    scale = _mm256_mul_ps(_mm256_loadu_ps(reinterpret_cast<const float*>(head) + 8 * h), _mm256_cvtepi32_ps(units));
    if constexpr (layout.min)
      minimum = _mm256_castsi256_ps(
          _mm256_slli_epi32(half_of_pair(head + 64 * (1 + place.pairs) + 32 * h, place.group), 16));
  } else {
    const __m256 sign = layout.is_super() ? _mm256_set1_ps(-0.f) : _mm256_setzero_ps();
    __m256 scales[2], minimums[2] = {minimum, minimum};
    for (int i = 0; i < 2; ++i) {
      scales[i] = load_f16(head + 16 * i);
      if constexpr (layout.min) minimums[i] = _mm256_xor_ps(load_f16(head + 32 + 16 * i), sign);
    }
    Scales of_group;
    group_scales<id>(head + layout.head_bytes() - 256, place.group, scales, minimums, of_group);
    const int s = layout.subs() == 2 ? place.sub % 2 : 0;
    scale = of_group.scale[s][h];
    if constexpr (layout.paired()) minimum = k4_minimums(head, place.group, h);
    else if constexpr (layout.min) minimum = of_group.minimum[s][h];
  }
  const __m256 value = _mm256_mul_ps(scale, codes);
  return layout.min ? _mm256_add_ps(value, minimum) : value;
}

}  // namespace
}  // namespace tenfold
