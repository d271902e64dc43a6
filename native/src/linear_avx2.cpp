// Linear kernels for AVX2 with FMA and F16C.
#ifdef TENFOLD_X86
#include <immintrin.h>

#include "linear_driver.hpp"
#include "packed_avx2.hpp"

namespace tenfold {
namespace {

// Exact dots of `quads` quads with 8 columns. vpmaddubsw saturates at 16 bits, so sums are widened before they can
// pass: a pair of products is at most 2 * 127 * (2^bits - 1). 8-bit codes are signed here: |code| <= 128 times the
// activation with the code's sign stays inside as well.
template <int bits, int quads>
inline __m256i dot_of(const uint8_t* codes, const uint8_t* q, __m256i dot) {
  constexpr int deep = bits <= 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sum = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int j = 0; j < quads; ++j) {
    const __m256i w = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes + j * 64));
    const __m256i x = broadcast_word(q + j * 4);
    __m256i pairs;
    if constexpr (bits == 8) pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    else pairs = _mm256_maddubs_epi16(w, x);
    sum = _mm256_add_epi16(sum, pairs);
    if ((j + 1) % deep == 0 || j + 1 == quads) {
      dot = _mm256_add_epi32(dot, _mm256_madd_epi16(sum, ones));
      sum = _mm256_setzero_si256();
    }
  }
  return dot;
}

template <LayoutId id, int R, int s>
inline void add_dots(const uint8_t* codes, const Scales& scales, const uint8_t* record, int r, float* y) {
  constexpr Layout layout = layout_of(id);
  constexpr int quads = 8 / layout.subs(), which = layout.subs() == 2 ? 1 + s : 0;  // of the group's three sums
  const uint8_t* q = record + r * kGroup + s * quads * 4;
  const __m256 act_scale = broadcast_float(record + R * kGroup + r * 4);
  __m256i start = _mm256_setzero_si256();
  if constexpr (!layout.min && layout.bits != 8)
    start = _mm256_mullo_epi32(broadcast_word(record + R * (kGroup + 4 + 4 * which) + r * 4),
                               _mm256_set1_epi32(-layout.offset));
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    float* to = y + r * kPanel + 8 * h;
    const __m256i dot = dot_of<layout.bits, quads>(codes + s * quads * 64 + 32 * h, q, start);
    __m256 sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(scales.scale[s][h], act_scale),
                                 _mm256_load_ps(to));
    if constexpr (layout.min)
      sum = _mm256_fmadd_ps(scales.minimum[s][h], broadcast_float(record + R * (kGroup + 16 + 4 * which) + r * 4), sum);
    _mm256_store_ps(to, sum);
  }
}

template <LayoutId id, int R>
inline void group_block(const uint8_t* panel, const uint8_t* rows, int groups, float* y) {
  constexpr Layout layout = layout_of(id);
  alignas(64) uint8_t codes[512];
  for (int at = 0; at < groups * kGroup; at += layout.block) {
    const __m256 scale[2] = {load_f16(panel), load_f16(panel + 16)};
    __m256 minimum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    if constexpr (layout.min) {
      const __m256 sign = layout.is_super() ? _mm256_set1_ps(-0.f) : _mm256_setzero_ps();
      for (int h = 0; h < 2; ++h) minimum[h] = _mm256_xor_ps(load_f16(panel + 32 + 16 * h), sign);
    }
    const uint8_t* subs = panel + layout.head_bytes() - 256;
    panel += layout.head_bytes();
    for (int g = 0; g < layout.block / kGroup; ++g, panel += layout.group_bytes(), rows += kGroupBytes * R) {
      Scales scales;
      group_scales<id>(subs, g, scale, minimum, scales);
      unpack_group<layout.bits>(panel, codes);
      for (int r = 0; r < R; ++r) {
        add_dots<id, R, 0>(codes, scales, rows, r, y);
        if constexpr (layout.subs() == 2) add_dots<id, R, 1>(codes, scales, rows, r, y);
      }
    }
  }
}

// Dots of a group with R rows, the two pairs of a quad side by side in 16 bits: 8 quads of at most 3810 fit, and what
// passes 16 bits when they are added wraps and comes back when -8 * sum is added.
template <int R>
inline void dots_of_group(const uint8_t* codes, const uint8_t* q, __m256i dot[R][2]) {
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) dot[r][0] = dot[r][1] = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int quad = 0; quad < 8; ++quad) {
    const __m256i left = load(codes + quad * 64), right = load(codes + quad * 64 + 32);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const __m256i x = broadcast_word(q + r * kPair + quad * 4);
      dot[r][0] = _mm256_add_epi16(dot[r][0], _mm256_maddubs_epi16(left, x));
      dot[r][1] = _mm256_add_epi16(dot[r][1], _mm256_maddubs_epi16(right, x));
    }
  }
}

// y += minimum * sum for both groups of pair p, in order; the products of bfloat16 are exact.
template <LayoutId id, int R>
inline void add_minimums(const uint8_t* head, int pairs, int p, const uint8_t* rows, float* y) {
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    __m256 first, second;
    if constexpr (layout_of(id).is_fine()) {
      const __m256i both = load(head + 64 + (pairs + p) * 64 + 32 * h);
      first = _mm256_castsi256_ps(_mm256_and_si256(both, upper));
      second = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
    } else {
      first = k4_minimums(head, 2 * p, h);
      second = k4_minimums(head, 2 * p + 1, h);
    }
    for (int r = 0; r < R; ++r) {
      const __m256i sums = broadcast_word(rows + R * 4 * (1 + p) + r * 4);
      float* to = y + r * kPanel + 8 * h;
      const __m256 sum = _mm256_fmadd_ps(first, _mm256_castsi256_ps(_mm256_and_si256(sums, upper)), _mm256_load_ps(to));
      _mm256_store_ps(to, _mm256_fmadd_ps(second, _mm256_castsi256_ps(_mm256_slli_epi32(sums, 16)), sum));
    }
  }
}

// See linear_generic.cpp for the order of operations.
template <LayoutId id, int R>
inline void paired_block(const uint8_t* panel, const uint8_t* rows, int groups, float* y) {
  constexpr Layout layout = layout_of(id);
  alignas(64) uint8_t codes[512];
  alignas(64) __m256i sums[R][2], high[R][2];
  const int pairs = (groups + 1) / 2;
  const uint8_t* planes = panel + layout.head_bytes(pairs);
  const uint8_t* record = rows + block_start_bytes(pairs) * R;
  for (int r = 0; r < R; ++r) sums[r][0] = sums[r][1] = _mm256_setzero_si256();
  for (int p = 0; p < pairs; ++p, planes += 2 * layout.group_bytes(), record += kPairBytes * R) {
    if constexpr (layout.min) add_minimums<id, R>(panel, pairs, p, rows, y);
    const uint8_t* words = record + R * kPair;
    __m256i dot[R][2];
    unpack_group<4>(planes, codes);
    dots_of_group<R>(codes, record, dot);
    for (int r = 0; r < R; ++r)  // the sum of both pairs into the upper half
      for (int h = 0; h < 2; ++h) high[r][h] = _mm256_add_epi16(dot[r][h], _mm256_slli_epi32(dot[r][h], 16));
    unpack_group<4>(planes + layout.group_bytes(), codes);
    dots_of_group<R>(codes, record + kGroup, dot);
    for (int h = 0; h < 2; ++h) {
      const __m256i scales = pair_scales<id>(panel, p, h);
      for (int r = 0; r < R; ++r) {
        const __m256i low = _mm256_add_epi16(dot[r][h], _mm256_srli_epi32(dot[r][h], 16));
        const __m256i both = _mm256_add_epi16(_mm256_blend_epi16(low, high[r][h], 0xaa), broadcast_word(words + R * 8 + r * 4));
        const __m256i factors = _mm256_mullo_epi16(scales, broadcast_word(words + R * 12 + r * 4));
        sums[r][h] = _mm256_add_epi32(sums[r][h], _mm256_madd_epi16(both, factors));
      }
    }
  }
  for (int h = 0; h < 2; ++h) {
    __m256 unit;
    if constexpr (layout.is_fine()) unit = _mm256_castsi256_ps(load(panel + 32 * h));
    else unit = load_f16(panel + 16 * h);
    for (int r = 0; r < R; ++r) {
      float* to = y + r * kPanel + 8 * h;
      _mm256_store_ps(to, _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[r][h]), _mm256_mul_ps(unit, broadcast_float(rows + r * 4)),
                                          _mm256_load_ps(to)));
    }
  }
}

// One fused multiply-add an element of k, in order, as in linear_generic.cpp.
template <int R>
inline void half_tile(const uint8_t* panel, const uint8_t* rows, int k, float* y) {
  const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  __m256 sum[R][2];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
    for (int h = 0; h < 2; ++h) sum[r][h] = _mm256_load_ps(y + r * kPanel + 8 * h);
  for (int i = 0; i < k; i += 2, panel += 64) {
    const uint8_t* x = rows + static_cast<size_t>(i / kGroup) * R * 64 + i % kGroup * 2;
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const __m256i both = load(panel + 32 * h);
      const __m256 even = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
      const __m256 odd = _mm256_castsi256_ps(_mm256_and_si256(both, high));
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const __m256i pair = broadcast_word(x + r * 64);
        sum[r][h] = _mm256_fmadd_ps(even, _mm256_castsi256_ps(_mm256_slli_epi32(pair, 16)), sum[r][h]);
        if (i + 1 < k) sum[r][h] = _mm256_fmadd_ps(odd, _mm256_castsi256_ps(_mm256_and_si256(pair, high)), sum[r][h]);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
    for (int h = 0; h < 2; ++h) _mm256_store_ps(y + r * kPanel + 8 * h, sum[r][h]);
}

struct Avx2 {
  static constexpr int kTiles[] = {1, 2, 4};

  template <LayoutId id, int R, int P>
  static void block(const uint8_t* const* panels, const uint8_t* records, int groups, float* y) {
    for (int p = 0; p < P; ++p, y += R * kPanel) {
      if constexpr (layout_of(id).paired()) paired_block<id, R>(panels[p], records, groups, y);
      else group_block<id, R>(panels[p], records, groups, y);
    }
  }

  template <int R, int P>
  static void halves(const uint8_t* const* panels, const uint8_t* records, int k, float* y) {
    for (int p = 0; p < P; ++p) half_tile<R>(panels[p], records, k, y + p * R * kPanel);
  }

  template <LayoutId id, int R>
  static void outliers(const uint8_t* panel, int groups, const uint32_t* k, const float* values, int count, float* y) {
    for (int i = 0; i < count; ++i, values += R) {
      const Place<id> place(panel, groups, k[i] % kBlock);
      const __m256 left = half_column<id>(place, 0), right = half_column<id>(place, 1);
      for (int r = 0; r < R; ++r) {
        float* to = y + r * kPanel;
        const __m256 value = _mm256_set1_ps(values[r]);
        _mm256_store_ps(to, _mm256_fmadd_ps(value, left, _mm256_load_ps(to)));
        _mm256_store_ps(to + 8, _mm256_fmadd_ps(value, right, _mm256_load_ps(to + 8)));
      }
    }
  }

  static uint32_t most(const float* x) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i most = _mm256_setzero_si256();
    for (int i = 0; i < kGroup; i += 8)
      most = _mm256_max_epi32(most, _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x + i)), magnitude));
    __m128i four = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1))));
  }

  static uint32_t above(const float* x, float bound) {
    const __m256 sign = _mm256_set1_ps(-0.f), limit = _mm256_set1_ps(bound);
    uint32_t bits = 0;
    for (int i = 0; i < kGroup; i += 8) {
      const __m256 over = _mm256_cmp_ps(_mm256_andnot_ps(sign, _mm256_loadu_ps(x + i)), limit, _CMP_GT_OQ);
      bits |= static_cast<uint32_t>(_mm256_movemask_ps(over)) << i;
    }
    return bits;
  }

  static int32_t quantize(const float* x, float inverse, int8_t* q) {
    const __m256 factor = _mm256_set1_ps(inverse), limit = _mm256_set1_ps(127.f), low = _mm256_set1_ps(-127.f);
    const __m256 keep = _mm256_cmp_ps(factor, _mm256_setzero_ps(), _CMP_NEQ_UQ);  // infinity times 0 is NaN
    __m256i parts[4];
    for (int i = 0; i < 4; ++i) {
      const __m256 scaled = _mm256_and_ps(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), factor), keep);
      parts[i] = _mm256_cvtps_epi32(_mm256_max_ps(_mm256_min_ps(scaled, limit), low));
    }
    const __m256i words = _mm256_packs_epi16(_mm256_packs_epi32(parts[0], parts[1]), _mm256_packs_epi32(parts[2], parts[3]));
    const __m256i bytes = _mm256_permutevar8x32_epi32(words, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), bytes);
    const __m256i total = _mm256_add_epi32(_mm256_add_epi32(parts[0], parts[1]), _mm256_add_epi32(parts[2], parts[3]));
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
  }

  static void bf16_row(const float* x, int k, uint16_t* out) {
    const int padded = padded_to_pairs(k);
    for (int i = 0; i < padded; i += 8) {
      float values[8] = {};
      if (i < k) std::memcpy(values, x + i, sizeof(float) * (k - i < 8 ? k - i : 8));
      const __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(values));
      const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
      const __m256i top = _mm256_srli_epi32(bits, 16);
      const __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
      __m256i rounded = _mm256_srli_epi32(
          _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
      const __m256i tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x00800000), magnitude);
      rounded = _mm256_blendv_epi8(rounded, _mm256_and_si256(top, _mm256_set1_epi32(0x8000)), tiny);
      const __m256i nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
      rounded = _mm256_blendv_epi8(rounded, _mm256_or_si256(top, _mm256_set1_epi32(0x40)), nan);
      const __m128i halves =
          _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
    }
  }
};

}  // namespace

const LinearKernels& linear_kernels_avx2() {
  static constexpr LinearKernels kernels = kernels_of<Avx2>();
  return kernels;
}

}  // namespace tenfold
#endif
