// Linear kernels for AVX-512 with VNNI and BF16.
#ifdef TENFOLD_X86
#include <immintrin.h>

#include <utility>

#include "linear_driver.hpp"

namespace tenfold {
namespace {

// GCC's own intrinsic headers leave some results uninitialised on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

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

// Four bytes in memory, of any type and alignment.
struct __attribute__((packed, may_alias)) Word { int32_t value; };

// dot += w * the four bytes at p, in every column. Compilers load the broadcast into a register first, which takes an
// execution slot that the dots need; as an operand in memory it takes none.
inline __m512i add_dot(__m512i dot, __m512i w, const uint8_t* p) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(dot) : "v"(w), "m"(*reinterpret_cast<const Word*>(p)));
  return dot;
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

template <int bits, int R, int quad>
inline void add_quad(const uint8_t* planes, const uint8_t* record, __m512i dot[R]) {
  const __m512i w = unpack_quad<bits, quad>(planes);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) dot[r] = add_dot(dot[r], w, record + r * kGroup + quad * 4);
}

// The dots of scale `s` of a group with all rows, side by side to hide their latency, and their share of y.
template <LayoutId id, int R, int s>
inline void add_dots(const uint8_t* planes, const Scales& scales, const uint8_t* record, __m512 y[R]) {
  constexpr Layout layout = layout_of(id);
  constexpr int quads = 8 / layout.subs();
  const uint8_t* words = record + R * (kGroup + 4 + s * 4);
  __m512i dot[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) dot[r] = layout.min ? _mm512_setzero_si512() : broadcast_word(words + r * 4);
  [&]<int... quad>(std::integer_sequence<int, quad...>) {
    (add_quad<layout.bits, R, s * quads + quad>(planes, record, dot), ...);
  }(std::make_integer_sequence<int, quads>());
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    const __m512 scale = _mm512_mul_ps(scales.scale[s], broadcast_float(record + R * kGroup + r * 4));
    y[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r]), scale, y[r]);
    if constexpr (layout.min) y[r] = _mm512_fmadd_ps(scales.minimum[s], broadcast_float(words + r * 4), y[r]);
  }
}

template <int R>
inline void bf16_tile(const uint8_t* panel, const uint8_t* rows, int k, __m512 y[R]) {
  const int pairs = (k + 1) / 2;
  for (int p = 0; p < pairs; p += 16, rows += R * 64) {
    const int count = pairs - p < 16 ? pairs - p : 16;
    for (int i = 0; i < count; ++i, panel += 64) {
      const auto w = reinterpret_cast<__m512bh>(_mm512_loadu_si512(panel));
      if constexpr (R <= 2) _mm_prefetch(reinterpret_cast<const char*>(panel + 2048), _MM_HINT_T0);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
        y[r] = _mm512_dpbf16_ps(y[r], w, reinterpret_cast<__m512bh>(broadcast_word(rows + r * 64 + i * 4)));
    }
  }
}

template <LayoutId id, int R>
inline void integer_tile(const uint8_t* panel, const TileRows& tile, int k, __m512 y[R]) {
  constexpr Layout layout = layout_of(id);
  const uint8_t* rows = tile.records;
  const uint8_t* refined = tile.refined;
  for (int at = 0; at < k; at += layout.block) {
    const __m512 scale = load_f16(panel);
    __m512 minimum = _mm512_setzero_ps();
    if constexpr (layout.min) minimum = load_f16(panel + 32);
    if constexpr (layout.min && layout.is_super())
      minimum = _mm512_xor_ps(minimum, _mm512_set1_ps(-0.f));
    const uint8_t* subs = panel + layout.head_bytes() - 256;
    panel += layout.head_bytes();
    for (int g = 0; g < layout.block / kGroup; ++g, panel += layout.group_bytes()) {
      if constexpr (R <= 4)  // few rows: memory is the limit
        for (int line = 0; line < layout.block_bytes() * kGroup / layout.block; line += 64)
          _mm_prefetch(reinterpret_cast<const char*>(panel + 2048 + line), _MM_HINT_T0);
      const Scales scales = group_scales<id>(subs, g, scale, minimum);
      for (int parts = 1 + *refined++; parts > 0; --parts, rows += record_bytes(layout, R)) {
        add_dots<id, R, 0>(panel, scales, rows, y);
        if constexpr (layout.subs() == 2) add_dots<id, R, 1>(panel, scales, rows, y);
      }
    }
  }
}

struct Avx512 {
  static constexpr int kTiles[] = {1, 2, 3, 4, 6, 8, 12};

  template <LayoutId id, int R>
  static void tile(const uint8_t* panel, const TileRows& rows, int k, float* out) {
    __m512 y[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) y[r] = _mm512_setzero_ps();
    if constexpr (id == LayoutId::bf16) bf16_tile<R>(panel, rows.records, k, y);
    else integer_tile<id, R>(panel, rows, k, y);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) _mm512_store_ps(out + r * kPanel, y[r]);
  }
};

// See linear_generic.cpp for what becomes of values that are not finite.
inline void quantize_group(__m512 first, __m512 second, int8_t* q, float* scale, int32_t* sum) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  const __m512i most_of = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(first), magnitude),
                                           _mm512_and_si512(_mm512_castps_si512(second), magnitude));
  const int32_t most = _mm512_reduce_max_epi32(most_of);
  const bool finite = most < 0x7f800000;
  const float most_float = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(most)));
  *scale = finite ? most_float / 127.f : __builtin_nanf("");
  __m512i a = _mm512_setzero_si512(), b = a;
  if (finite && *scale > 0.f) {
    const __m512 divisor = _mm512_set1_ps(*scale), limit = _mm512_set1_ps(127.f), low = _mm512_set1_ps(-127.f);
    const auto round = [&](__m512 x) {
      return _mm512_cvtps_epi32(_mm512_max_ps(_mm512_min_ps(_mm512_div_ps(x, divisor), limit), low));
    };
    a = round(first);
    b = round(second);
  }
  _mm_storeu_si128(reinterpret_cast<__m128i*>(q), _mm512_cvtepi32_epi8(a));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(q + 16), _mm512_cvtepi32_epi8(b));
  *sum = _mm512_reduce_add_epi32(_mm512_add_epi32(a, b));
}

void quantize_row(const float* x, int k, const QuantizedRow& out) {
  for (int at = 0, g = 0; at < k; at += kGroup, ++g) {
    const int left = k - at;
    const uint32_t mask = left >= kGroup ? ~0u : (1u << left) - 1u;
    quantize_group(_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), x + at),
                   _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), x + at + 16), out.q + at, out.scale + g,
                   out.sum + g);
  }
  refine_row(x, k, out);
}

void bf16_row(const float* x, int k, uint16_t* out) {
  const int padded = (k + kGroup - 1) / kGroup * kGroup;
  for (int i = 0; i < padded; i += 16) {
    const int left = k - i;
    const auto mask = static_cast<__mmask16>(left >= 16 ? 0xffff : left <= 0 ? 0 : (1 << left) - 1);
    const __m256bh halves = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), reinterpret_cast<__m256i>(halves));
  }
}

}  // namespace

const LinearKernels& linear_kernels_avx512() {
  static constexpr LinearKernels kernels{quantize_row, bf16_row, multiply<Avx512>};
  return kernels;
}

}  // namespace tenfold
#endif
