// Packed integer weights in bfloat16, row by row of B operands of tile products.
//
// A weight is made in float16, in which AVX-512 has twice as many lanes as in float32: scale * code + (value of code
// 0), both rounded to float16 once, the sum once. Scales come times 2^exponent, which brings the weight's largest value
// below 2^15, so what float16 cannot hold is too small to matter. The result is rounded to bfloat16's eight bits of
// precision, halves away from zero, by a shift: its five bits of exponent stay as they are, at the foot of bfloat16's
// eight, which makes the weight 2^112 times smaller than it is. Activations come kQuadScale times larger, and products
// are set right at their end.
//
// Codes lie four k to a word; masks of its halves yield k 0 and 2, then 1 and 3. Activations come in that order.
#pragma once
#include "packed_avx512.hpp"
#include "tiles_amx.hpp"

namespace tenfold {
namespace {

constexpr int kOperandBytes = kTileRows * kTileBytes;  // a group of one panel
constexpr int kExponentBias = 112;                     // 127 - 15

// Float16 of 16 columns, each twice.
inline __m512h twice(__m512 x) {
  const __m512i halves = _mm512_cvtepu16_epi32(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  return _mm512_castsi512_ph(_mm512_or_si512(halves, _mm512_slli_epi32(halves, 16)));
}

// What weights of a sub-block are made with: scales divided by 2^shift of codes that are masked, not moved.
struct Maker {
  __m512h scale, scale16, scale256, scale4096, zero;  // zero: the value of code 0

  Maker(__m512 s, __m512 value_of_zero, bool nibbles)
      : scale(twice(s)), scale16(scale), scale256(divided(scale, 0x1p-8f)), scale4096(scale), zero(twice(value_of_zero)) {
    if (!nibbles) return;
    scale16 = divided(scale, 0x1p-4f);
    scale4096 = divided(scale, 0x1p-12f);
  }
  static __m512h divided(__m512h x, float by) { return _mm512_mul_ph(x, _mm512_set1_ph(static_cast<_Float16>(by))); }
};

// Writes a row, of codes that are the halves of `words` that `mask` leaves.
inline void make_row(__m512i words, uint16_t mask, __m512h scale, __m512h zero, uint8_t* out) {
  const __m512i codes = _mm512_and_si512(words, _mm512_set1_epi16(static_cast<int16_t>(mask)));
  const __m512h value = _mm512_fmadd_ph(_mm512_cvtepu16_ph(codes), scale, zero);
  const __m512i moved = _mm512_mulhrs_epi16(_mm512_castph_si512(value), _mm512_set1_epi16(1 << 12));  // rounds value / 8
  // Bits 12 to 14 of each half repeat the sign.
  _mm512_store_si512(out, _mm512_and_si512(moved, _mm512_set1_epi16(static_cast<int16_t>(0x8fff))));
}

// Scales of group g, and values of code 0, of each sub-block.
struct GroupScales { __m512 scale[2], zero[2]; };

template <LayoutId id>
inline GroupScales scales_of_group(const uint8_t* head, int pairs, int g, __m512 power) {
  constexpr Layout layout = layout_of(id);
  const __m512 offset = _mm512_set1_ps(static_cast<float>(layout.offset));
  Scales read{};
  if constexpr (layout.is_fine()) {
    read.scale[0] =
        _mm512_mul_ps(_mm512_mul_ps(_mm512_loadu_ps(head), power), _mm512_cvtepi32_ps(half_of_pair(head + 64, g)));
    if constexpr (layout.min)
      read.minimum[0] = _mm512_mul_ps(
          power, _mm512_castsi512_ps(_mm512_slli_epi32(half_of_pair(head + 64 * (1 + pairs), g), 16)));
  } else {
    const __m512 scale = _mm512_mul_ps(load_f16(head), power);
    __m512 minimum = _mm512_setzero_ps();
    if constexpr (layout.min) minimum = _mm512_mul_ps(load_f16(head + 32), power);
    const __m512 negated = layout.is_super() ? _mm512_sub_ps(_mm512_setzero_ps(), minimum) : minimum;
    read = group_scales<id>(head + layout.head_bytes() - 256, g, scale, negated);
    if constexpr (layout.paired()) {
      const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
      read.minimum[0] = _mm512_castsi512_ps(_mm512_and_si512(k4_minimum(head, g, scale, minimum), upper));
    }
  }
  GroupScales out;
  for (int s = 0; s < layout.subs(); ++s) {
    const __m512 of_offset = _mm512_mul_ps(offset, read.scale[s]);
    out.scale[s] = read.scale[s];
    out.zero[s] = _mm512_sub_ps(layout.min ? read.minimum[s] : _mm512_setzero_ps(), of_offset);
  }
  return out;
}

// Writes the rows of quads [first, first + count) of the group at `out`.
template <LayoutId id, int first, int count>
inline void make_quads(const uint8_t* planes, const Maker& maker, uint8_t* out) {
  constexpr int bits = layout_of(id).bits;
  if constexpr (bits == 4) {
#pragma GCC unroll 4
    for (int v = first / 2; v < (first + count) / 2; ++v) {
      const __m512i words = _mm512_loadu_si512(planes + 64 * v);
      make_row(words, 0x000f, maker.scale, maker.zero, out + 4 * v * kTileBytes);
      make_row(words, 0x0f00, maker.scale256, maker.zero, out + (4 * v + 1) * kTileBytes);
      make_row(words, 0x00f0, maker.scale16, maker.zero, out + (4 * v + 2) * kTileBytes);
      make_row(words, 0xf000, maker.scale4096, maker.zero, out + (4 * v + 3) * kTileBytes);
    }
  } else {
    [&]<int... quad>(std::integer_sequence<int, quad...>) {
      const auto both = [&](__m512i words, int q) {
        make_row(words, 0x00ff, maker.scale, maker.zero, out + 2 * q * kTileBytes);
        make_row(words, 0xff00, maker.scale256, maker.zero, out + (2 * q + 1) * kTileBytes);
      };
      (both(unpack_quad<bits, first + quad>(planes), first + quad), ...);
    }(std::make_integer_sequence<int, count>());
  }
}

// Writes the B operand of group `group` of a panel of k columns, and asks memory for what comes later.
template <LayoutId id>
inline void unpack_operand(const uint8_t* panel, int k, int group, __m512 power, uint8_t* out) {
  constexpr Layout layout = layout_of(id);
  constexpr int kGroupsABlock = layout.block / kGroup, kAhead = 4096;
  constexpr int kShare = (layout.block_bytes() / kGroupsABlock + 63) / 64 * 64;  // of a block's bytes
  const int block = group / kGroupsABlock, g = group % kGroupsABlock;
  const int pairs = layout.is_fine() ? pairs_in_block(k, block) : 4;
  const uint8_t* head = panel + static_cast<size_t>(block) * layout.block_bytes();
  const uint8_t* planes = head + layout.head_bytes(pairs) + g * layout.group_bytes();
  for (int line = 0; line < kShare; line += 64)
    _mm_prefetch(reinterpret_cast<const char*>(planes + kAhead + line), _MM_HINT_T0);
  const GroupScales scales = scales_of_group<id>(head, pairs, g, power);
  constexpr int kQuads = 8 / layout.subs();
  make_quads<id, 0, kQuads>(planes, Maker(scales.scale[0], scales.zero[0], layout.bits == 4), out);
  if constexpr (layout.subs() == 2)
    make_quads<id, kQuads, kQuads>(planes, Maker(scales.scale[1], scales.zero[1], false), out);
}

}  // namespace
}  // namespace tenfold
