// Packed weights read into AVX-512 vectors: codes, scales and minimums of all 16 columns of a panel at once.
#pragma once
#include <immintrin.h>

#include <cstring>

#include "linear_driver.hpp"
#include "packed_weight.hpp"

namespace tenfold {
namespace {

inline __m512i broadcast_word(const uint8_t* p) {
  int32_t word;
  std::memcpy(&word, p, 4);
  return _mm512_set1_epi32(word);
}

inline __m512 broadcast_float(const uint8_t* p) {
  float word;
  std::memcpy(&word, p, 4);
  return _mm512_set1_ps(word);
}

inline __m512 load_f16(const uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

inline __m128i load_bytes(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }

// low | (high shifted so that `width` bits of quad `quad` lie at bit `to`, masked).
template <int width, int quad, int to>
inline __m512i join_plane(__m512i low, __m512i plane) {
  constexpr int from = width * quad;
  __m512i moved = plane;
  if constexpr (from > to) moved = _mm512_srli_epi16(plane, from - to);
  if constexpr (from < to) moved = _mm512_slli_epi16(plane, to - from);
  const __m512i mask = _mm512_set1_epi8(static_cast<char>(((1 << width) - 1) << to));
  return _mm512_ternarylogic_epi64(low, moved, mask, 0xf8);  // low | (moved & mask)
}

template <int width, int quad>
inline __m512i take_plane(__m512i plane) {
  constexpr int from = width * quad;
  const __m512i moved = from > 0 ? _mm512_srli_epi16(plane, from) : plane;
  return _mm512_and_si512(moved, _mm512_set1_epi8((1 << width) - 1));
}

// Codes of a quad of a group.
template <int bits, int quad>
inline __m512i unpack_quad(const uint8_t* planes) {
  const auto load = [planes](int i) { return _mm512_loadu_si512(planes + 64 * i); };
  if constexpr (bits == 8) return load(quad);
  if constexpr (bits == 2) return take_plane<2, quad % 4>(load(quad / 4));
  if constexpr (bits == 3) return join_plane<1, quad, 2>(take_plane<2, quad % 4>(load(quad / 4)), load(2));
  if constexpr (bits == 4) return take_plane<4, quad % 2>(load(quad / 2));
  if constexpr (bits == 5) return join_plane<1, quad, 4>(take_plane<4, quad % 2>(load(quad / 2)), load(4));
  if constexpr (bits == 6)
    return join_plane<2, quad % 4, 4>(take_plane<4, quad % 2>(load(quad / 2)), load(4 + quad / 4));
}

struct Scales { __m512 scale[2], minimum[2]; };

inline __m512 float_of_u8(__m128i bytes) { return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)); }

// `minimum` of super blocks comes negated.
template <LayoutId id>
inline Scales group_scales(const uint8_t* subs, int group, __m512 scale, __m512 minimum) {
  constexpr Layout layout = layout_of(id);
  Scales out;
  if constexpr (!layout.is_super()) {
    out.scale[0] = scale;
    out.minimum[0] = minimum;
  } else if constexpr (layout.sub == 32) {
    out.scale[0] = _mm512_mul_ps(scale, float_of_u8(load_bytes(subs + group * 32)));
    out.minimum[0] = _mm512_mul_ps(minimum, float_of_u8(load_bytes(subs + group * 32 + 16)));
  } else {
    for (int s = 0; s < 2; ++s) {
      const __m128i bytes = load_bytes(subs + (group * 2 + s) * 16);
      if constexpr (layout.min) {
        const __m128i mask = _mm_set1_epi8(15);
        out.scale[s] = _mm512_mul_ps(scale, float_of_u8(_mm_and_si128(bytes, mask)));
        out.minimum[s] = _mm512_mul_ps(minimum, float_of_u8(_mm_and_si128(_mm_srli_epi16(bytes, 4), mask)));
      } else {
        out.scale[s] = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)));
      }
    }
  }
  return out;
}

// Of pair p of a block of a 4-bit format: the groups' scales in units as pairs of 16 bits, the second group's low.
template <LayoutId id>
inline __m512i pair_scales(const uint8_t* head, int p) {
  if constexpr (layout_of(id).is_fine()) return _mm512_loadu_si512(head + 64 + p * 64);
  const __m512i first = _mm512_cvtepu8_epi32(load_bytes(head + 64 + p * 64));
  return _mm512_or_si512(_mm512_slli_epi32(first, 16), _mm512_cvtepu8_epi32(load_bytes(head + 64 + p * 64 + 32)));
}

// cut_to_bf16(8 * scale - minimum) of group g, in the upper half of each word; what is below is rubbish.
inline __m512i k4_minimum(const uint8_t* head, int g, __m512 scale, __m512 minimum) {
  const __m512 whole = _mm512_mul_ps(scale, float_of_u8(load_bytes(head + 64 + g * 32)));
  const __m512 taken = _mm512_mul_ps(minimum, float_of_u8(load_bytes(head + 64 + g * 32 + 16)));
  const __m512 middle = _mm512_sub_ps(_mm512_mul_ps(whole, _mm512_set1_ps(8.f)), taken);
  return _mm512_add_epi32(_mm512_castps_si512(middle), _mm512_set1_epi32(0x8000));
}

template <LayoutId id>
inline __m512i pair_minimums(const uint8_t* head, int pairs, int p) {
  if constexpr (layout_of(id).is_fine()) return _mm512_loadu_si512(head + 64 + (pairs + p) * 64);
  const __m512 scale = load_f16(head), minimum = load_f16(head + 32);
  const __m512i first = k4_minimum(head, 2 * p, scale, minimum), second = k4_minimum(head, 2 * p + 1, scale, minimum);
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  return _mm512_ternarylogic_epi32(_mm512_srli_epi32(second, 16), first, upper, 0xf8);  // second | (first & upper)
}

// `width` bits of element `e` of a group, from its plane.
template <int width>
inline __m512i element_bits(const uint8_t* plane, uint32_t e) {
  const uint32_t quad = e / 4, per_vector = 8 / width;
  const __m512i words = _mm512_loadu_si512(plane + quad / per_vector * 64);
  const __m128i by = _mm_cvtsi32_si128(static_cast<int>(e % 4 * 8 + width * (quad % per_vector)));
  return _mm512_and_si512(_mm512_srl_epi32(words, by), _mm512_set1_epi32((1 << width) - 1));
}

template <int bits>
inline __m512i element_codes(const uint8_t* planes, uint32_t e) {
  if constexpr (bits == 8) return element_bits<8>(planes, e);
  const __m512i low = bits <= 3 ? element_bits<2>(planes, e) : element_bits<4>(planes, e);
  if constexpr (bits == 3) return _mm512_or_si512(low, _mm512_slli_epi32(element_bits<1>(planes + 128, e), 2));
  if constexpr (bits == 5) return _mm512_or_si512(low, _mm512_slli_epi32(element_bits<1>(planes + 256, e), 4));
  if constexpr (bits == 6) return _mm512_or_si512(low, _mm512_slli_epi32(element_bits<2>(planes + 256, e), 4));
  return low;
}

// Signed 16 bits of group g out of pairs, the second group's low.
inline __m512i half_of_pair(const uint8_t* pairs, uint32_t g) {
  const __m512i both = _mm512_loadu_si512(pairs + g / 2 * 64);
  return _mm512_srai_epi32(g % 2 == 0 ? both : _mm512_slli_epi32(both, 16), 16);
}

// The values of an element's weights in all columns, as unpack_row gives them.
template <LayoutId id>
inline __m512 column_of(const Place<id>& place) {
  constexpr Layout layout = layout_of(id);
  const uint8_t* head = place.head;
  const __m512i offset = _mm512_set1_epi32(layout.offset);
  const __m512 codes =
      _mm512_cvtepi32_ps(_mm512_sub_epi32(element_codes<layout.bits>(place.planes, place.element), offset));
  __m512 scale, minimum = _mm512_setzero_ps();
  if constexpr (layout.is_fine()) {
    scale = _mm512_mul_ps(_mm512_loadu_ps(head), _mm512_cvtepi32_ps(half_of_pair(head + 64, place.group)));
    if constexpr (layout.min)
      minimum = _mm512_castsi512_ps(_mm512_slli_epi32(half_of_pair(head + 64 * (1 + place.pairs), place.group), 16));
  } else {
    minimum = layout.min ? load_f16(head + 32) : minimum;
    const __m512 negated = layout.is_super() ? _mm512_sub_ps(_mm512_setzero_ps(), minimum) : minimum;
    const uint8_t* subs = head + layout.head_bytes() - 256;
    const Scales scales = group_scales<id>(subs, place.group, load_f16(head), negated);
    const int s = layout.subs() == 2 ? place.sub % 2 : 0;
    scale = scales.scale[s];
    if constexpr (layout.paired()) {
      const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
      minimum = _mm512_castsi512_ps(_mm512_and_si512(k4_minimum(head, place.group, load_f16(head), minimum), upper));
    } else if constexpr (layout.min) {
      minimum = scales.minimum[s];
    }
  }
  __m512 value = _mm512_mul_ps(scale, codes);
  if constexpr (layout.min) value = _mm512_add_ps(value, minimum);
  return value;
}

}  // namespace
}  // namespace tenfold
