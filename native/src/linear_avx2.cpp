// Linear kernels for AVX2 with FMA and F16C.
#ifdef TENFOLD_X86
#include <immintrin.h>

#include "linear_driver.hpp"

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
  constexpr int quads = 8 / layout.subs();
  const uint8_t* q = record + r * kGroup + s * quads * 4;
  const uint8_t* word = record + R * (kGroup + 4 + s * 4) + r * 4;
  const __m256 act_scale = broadcast_float(record + R * kGroup + r * 4);
  const __m256i start = layout.min || layout.bits == 8 ? _mm256_setzero_si256() : broadcast_word(word);
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    float* to = y + r * kPanel + 8 * h;
    const __m256i dot = dot_of<layout.bits, quads>(codes + s * quads * 64 + 32 * h, q, start);
    __m256 sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(scales.scale[s][h], act_scale),
                                 _mm256_load_ps(to));
    if constexpr (layout.min) sum = _mm256_fmadd_ps(scales.minimum[s][h], broadcast_float(word), sum);
    _mm256_store_ps(to, sum);
  }
}

template <LayoutId id, int R>
inline void add_group(const uint8_t* codes, const Scales& scales, const uint8_t* record, float* y) {
  for (int r = 0; r < R; ++r) {
    add_dots<id, R, 0>(codes, scales, record, r, y);
    if constexpr (layout_of(id).subs() == 2) add_dots<id, R, 1>(codes, scales, record, r, y);
  }
}

// One fused multiply-add an element of k, in order, as in linear_generic.cpp.
template <int R>
inline void bf16_tile(const uint8_t* panel, const uint8_t* rows, int k, float* y) {
  const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  __m256 sum[R][2];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = _mm256_setzero_ps();
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

  template <LayoutId id, int R>
  static void tile(const uint8_t* panel, const TileRows& tile, int k, float* y) {
    constexpr Layout layout = layout_of(id);
    const uint8_t* rows = tile.records;
    if constexpr (layout.bits == 16) {
      bf16_tile<R>(panel, rows, k, y);
    } else {
      const uint8_t* refined = tile.refined;
      std::memset(y, 0, sizeof(float) * R * kPanel);
      alignas(64) uint8_t codes[512];
      for (int at = 0; at < k; at += layout.block) {
        const __m256 scale[2] = {load_f16(panel), load_f16(panel + 16)};
        __m256 minimum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
        if constexpr (layout.min) {
          const __m256 sign = layout.is_super() ? _mm256_set1_ps(-0.f) : _mm256_setzero_ps();
          for (int h = 0; h < 2; ++h) minimum[h] = _mm256_xor_ps(load_f16(panel + 32 + 16 * h), sign);
        }
        const uint8_t* subs = panel + layout.head_bytes() - 256;
        panel += layout.head_bytes();
        for (int g = 0; g < layout.block / kGroup; ++g, panel += layout.group_bytes()) {
          Scales scales;
          group_scales<id>(subs, g, scale, minimum, scales);
          unpack_group<layout.bits>(panel, codes);
          for (int parts = 1 + *refined++; parts > 0; --parts, rows += record_bytes(layout, R))
            add_group<id, R>(codes, scales, rows, y);
        }
      }
    }
  }
};

// See linear_generic.cpp for what becomes of values that are not finite.
inline void quantize_group(const float* x, int8_t* q, float* scale, int32_t* sum) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256 values[4];
  __m256i most_of = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) {
    values[i] = _mm256_loadu_ps(x + 8 * i);
    most_of = _mm256_max_epi32(most_of, _mm256_and_si256(_mm256_castps_si256(values[i]), magnitude));
  }
  __m128i most = _mm_max_epi32(_mm256_castsi256_si128(most_of), _mm256_extracti128_si256(most_of, 1));
  most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4e));
  most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0xb1));
  const bool finite = _mm_cvtsi128_si32(most) < 0x7f800000;
  *scale = finite ? _mm_cvtss_f32(_mm_castsi128_ps(most)) / 127.f : __builtin_nanf("");
  __m256i whole[4] = {};
  if (finite && *scale > 0.f) {
    const __m256 divisor = _mm256_set1_ps(*scale), limit = _mm256_set1_ps(127.f), low = _mm256_set1_ps(-127.f);
    for (int i = 0; i < 4; ++i)
      whole[i] = _mm256_cvtps_epi32(
          _mm256_max_ps(_mm256_min_ps(_mm256_div_ps(values[i], divisor), limit), low));
  }
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(whole[0], whole[1]),
                                            _mm256_packs_epi32(whole[2], whole[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // the packs work in 128-bit halves
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), _mm256_permutevar8x32_epi32(packed, order));
  const __m256i sums = _mm256_add_epi32(_mm256_add_epi32(whole[0], whole[1]), _mm256_add_epi32(whole[2], whole[3]));
  __m128i total = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  total = _mm_add_epi32(total, _mm_shuffle_epi32(total, 0x4e));
  total = _mm_add_epi32(total, _mm_shuffle_epi32(total, 0xb1));
  *sum = _mm_cvtsi128_si32(total);
}

void quantize_row(const float* x, int k, const QuantizedRow& out) {
  for (int at = 0, g = 0; at < k; at += kGroup, ++g) {
    float padded[kGroup] = {};
    const bool whole = k - at >= kGroup;
    if (!whole) std::memcpy(padded, x + at, sizeof(float) * (k - at));
    quantize_group(whole ? x + at : padded, out.q + at, out.scale + g, out.sum + g);
  }
  refine_row(x, k, out);
}

// As float_to_bf16: nearest even, quiet NaN, denormals to zero.
void bf16_row(const float* x, int k, uint16_t* out) {
  const int padded = (k + kGroup - 1) / kGroup * kGroup;
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

}  // namespace

const LinearKernels& linear_kernels_avx2() {
  static constexpr LinearKernels kernels{quantize_row, bf16_row, multiply<Avx2>};
  return kernels;
}

}  // namespace tenfold
#endif
