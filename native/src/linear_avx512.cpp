// Linear kernels for AVX-512 with VNNI and BF16.
#ifdef TENFOLD_X86
#include <immintrin.h>

#include <utility>

#include "linear_driver.hpp"
#include "packed_avx512.hpp"

namespace tenfold {
namespace {

// GCC's own intrinsic headers leave some results uninitialised on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

// Four bytes in memory, of any type and alignment.
struct __attribute__((packed, may_alias)) Word { int32_t value; };

// dot += w * the four bytes at p, in every column. Compilers load the broadcast into a register first, which takes an
// execution slot that the dots need; as an operand in memory it takes none.
inline __m512i add_dot(__m512i dot, __m512i w, const uint8_t* p) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(dot) : "v"(w), "m"(*reinterpret_cast<const Word*>(p)));
  return dot;
}

template <int bits, int R, int quad>
inline void add_quad(const uint8_t* planes, const uint8_t* record, __m512i dot[R]) {
  const __m512i w = unpack_quad<bits, quad>(planes);
  for (int r = 0; r < R; ++r) dot[r] = add_dot(dot[r], w, record + r * kGroup + quad * 4);
}

constexpr int log2_of(int power) { return power <= 1 ? 0 : 1 + log2_of(power / 2); }

// The dots of scale `s` of a group with all rows, side by side to hide their latency, and their share of y.
template <LayoutId id, int R, int s>
inline void add_dots(const uint8_t* planes, const Scales& scales, const uint8_t* record, __m512 y[R]) {
  constexpr Layout layout = layout_of(id);
  constexpr int quads = 8 / layout.subs(), which = layout.subs() == 2 ? 1 + s : 0;  // of the group's three sums
  const uint8_t* sums = record + R * (kGroup + 4 + 4 * which);
  const uint8_t* values = record + R * (kGroup + 16 + 4 * which);
  __m512i dot[R];
  for (int r = 0; r < R; ++r) {
    dot[r] = _mm512_setzero_si512();
    if constexpr (layout.offset > 0)
      dot[r] = _mm512_sub_epi32(dot[r], _mm512_slli_epi32(broadcast_word(sums + r * 4), log2_of(layout.offset)));
  }
  [&]<int... quad>(std::integer_sequence<int, quad...>) {
    (add_quad<layout.bits, R, s * quads + quad>(planes, record, dot), ...);
  }(std::make_integer_sequence<int, quads>());
  for (int r = 0; r < R; ++r) {
    const __m512 scale = _mm512_mul_ps(scales.scale[s], broadcast_float(record + R * kGroup + r * 4));
    y[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r]), scale, y[r]);
    if constexpr (layout.min) y[r] = _mm512_fmadd_ps(scales.minimum[s], broadcast_float(values + r * 4), y[r]);
  }
}

// Calls body<0>() to body<P - 1>(): loops that the compiler unrolls late would keep sums in memory.
template <int P, class Body>
inline void each_panel(const Body& body) {
  [&]<int... q>(std::integer_sequence<int, q...>) { (body.template operator()<q>(), ...); }
  (std::make_integer_sequence<int, P>());
}

// 16 pairs of k, or what k leaves.
template <int R>
inline void add_halves(const uint8_t* panel, const uint8_t* rows, int count, __m512 y[R]) {
  for (int i = 0; i < count; ++i, panel += 64) {
    const auto w = reinterpret_cast<__m512bh>(_mm512_loadu_si512(panel));
    if constexpr (R <= 2) _mm_prefetch(reinterpret_cast<const char*>(panel + 2048), _MM_HINT_T0);
    for (int r = 0; r < R; ++r)
      y[r] = _mm512_dpbf16_ps(y[r], w, reinterpret_cast<__m512bh>(broadcast_word(rows + r * kHalfBytes + i * 4)));
  }
}

template <int R, int P>
inline void half_tiles(const uint8_t* const* panels, const uint8_t* rows, int k, float* out) {
  __m512 y[P][R];
  for (int i = 0; i < P * R; ++i) y[i / R][i % R] = _mm512_load_ps(out + i * kPanel);
  const int pairs = (k + 1) / 2;
  for (int p = 0; p < pairs; p += 16, rows += R * kHalfBytes)
    each_panel<P>([&]<int q>() {
      add_halves<R>(panels[q] + static_cast<size_t>(p) * 64, rows, pairs - p < 16 ? pairs - p : 16, y[q]);
    });
  for (int i = 0; i < P * R; ++i) _mm512_store_ps(out + i * kPanel, y[i / R][i % R]);
}

// Asks memory for what comes `kAhead` bytes later.
constexpr int kAhead = 4096;
inline void ask_ahead(const uint8_t* from, int bytes) {
  for (int line = 0; line < bytes; line += 64)
    _mm_prefetch(reinterpret_cast<const char*>(from + kAhead + line), _MM_HINT_T0);
}

template <LayoutId id, int R, int P>
inline void group_block(const uint8_t* const* panels, const uint8_t* rows, int groups, float* out) {
  constexpr Layout layout = layout_of(id);
  __m512 y[P][R];
  for (int i = 0; i < P * R; ++i) y[i / R][i % R] = _mm512_load_ps(out + i * kPanel);
  for (int at = 0; at < groups * kGroup; at += layout.block) {
    const size_t offset = static_cast<size_t>(at / layout.block) * layout.block_bytes();
    for (int g = 0; g < layout.block / kGroup; ++g, rows += kGroupBytes * R)
      each_panel<P>([&]<int q>() {
        const uint8_t* head = panels[q] + offset;
        const __m512 scale = load_f16(head);
        __m512 minimum = _mm512_setzero_ps();
        if constexpr (layout.min) minimum = load_f16(head + 32);
        if constexpr (layout.min && layout.is_super()) minimum = _mm512_xor_ps(minimum, _mm512_set1_ps(-0.f));
        const uint8_t* planes = head + layout.head_bytes() + g * layout.group_bytes();
        ask_ahead(planes, layout.block_bytes() * kGroup / layout.block);
        const Scales scales = group_scales<id>(head + layout.head_bytes() - 256, g, scale, minimum);
        add_dots<id, R, 0>(planes, scales, rows, y[q]);
        if constexpr (layout.subs() == 2) add_dots<id, R, 1>(planes, scales, rows, y[q]);
      });
  }
  for (int i = 0; i < P * R; ++i) _mm512_store_ps(out + i * kPanel, y[i / R][i % R]);
}

// vdpbf16ps adds the product of the upper halves first, so groups come in order.
template <LayoutId id, int R, int pairs>
inline void add_minimums(const uint8_t* head, const uint8_t* rows, float* y) {
  __m512bh minimums[pairs];
  for (int p = 0; p < pairs; ++p) minimums[p] = reinterpret_cast<__m512bh>(pair_minimums<id>(head, pairs, p));
  for (int r = 0; r < R; ++r) {
    __m512 sum = _mm512_load_ps(y + r * kPanel);
    for (int p = 0; p < pairs; ++p)
      sum = _mm512_dpbf16_ps(sum, minimums[p], reinterpret_cast<__m512bh>(broadcast_word(rows + R * 4 * (1 + p) + r * 4)));
    _mm512_store_ps(y + r * kPanel, sum);
  }
}

// Keeps the compiler from carrying y in registers, of which the dots need all.
inline void forget_registers() { asm volatile("" ::: "memory"); }

// Adds pair p of a block. Both dots of a pair lie in one register: the first moves to the upper half, where the second
// cannot reach it, as 32768 is added to that, and taken off again by flipping its upper bit. So a multiplication of
// 16-bit pairs by scales times levels adds both to the block's sum.
template <LayoutId id, int R, int pairs>
inline void add_pair(const uint8_t* head, int p, const uint8_t* record, __m512i sums[R]) {
  constexpr Layout layout = layout_of(id);
  constexpr int kShare = (layout.block_bytes(pairs) / pairs + 63) / 64 * 64;  // of the block's bytes, for each pair
  constexpr int kChains = R == 1 ? 4 : R <= 3 ? 2 : 1;  // of dots that wait for one another
  const uint8_t* planes = head + layout.head_bytes(pairs) + p * 2 * layout.group_bytes();
  const uint8_t* words = record + R * kPair;
  ask_ahead(head + p * kShare, kShare);
  __m512i dot[kChains][R];
  for (int r = 0; r < R; ++r) dot[0][r] = broadcast_word(words + r * 4);
  for (int i = 1; i < kChains; ++i)
    for (int r = 0; r < R; ++r) dot[i][r] = _mm512_setzero_si512();
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    const __m512i even = unpack_quad<4, 0>(planes + 64 * v), odd = unpack_quad<4, 1>(planes + 64 * v);
    const int first = 2 * v % kChains, second = (2 * v + 1) % kChains;
    for (int r = 0; r < R; ++r) dot[first][r] = add_dot(dot[first][r], even, record + r * kPair + v * 8);
    for (int r = 0; r < R; ++r) dot[second][r] = add_dot(dot[second][r], odd, record + r * kPair + v * 8 + 4);
  }
  for (int r = 0; r < R; ++r) {
    for (int i = 1; i < kChains; ++i) dot[0][r] = _mm512_add_epi32(dot[0][r], dot[i][r]);
    dot[0][r] = _mm512_add_epi32(_mm512_slli_epi32(dot[0][r], 16), broadcast_word(words + R * 4 + r * 4));
    for (int i = 1; i < kChains; ++i) dot[i][r] = _mm512_setzero_si512();
  }
#pragma GCC unroll 4
  for (int v = 4; v < 8; ++v) {
    const __m512i even = unpack_quad<4, 0>(planes + 64 * v), odd = unpack_quad<4, 1>(planes + 64 * v);
    const int first = 2 * v % kChains, second = (2 * v + 1) % kChains;
    for (int r = 0; r < R; ++r) dot[first][r] = add_dot(dot[first][r], even, record + r * kPair + v * 8);
    for (int r = 0; r < R; ++r) dot[second][r] = add_dot(dot[second][r], odd, record + r * kPair + v * 8 + 4);
  }
  for (int r = 0; r < R; ++r)
    for (int i = 1; i < kChains; ++i) dot[0][r] = _mm512_add_epi32(dot[0][r], dot[i][r]);
  const __m512i scales = pair_scales<id>(head, p), flip = _mm512_set1_epi32(0x8000);
  for (int r = 0; r < R; ++r) {
    const __m512i factors = _mm512_mullo_epi16(scales, broadcast_word(words + R * 12 + r * 4));
    sums[r] = _mm512_dpwssd_epi32(sums[r], _mm512_xor_si512(dot[0][r], flip), factors);
  }
}

// P panels take turns at each pair, so that memory serves P streams.
template <LayoutId id, int R, int pairs, int P>
inline void paired_block(const uint8_t* const* heads, const uint8_t* rows, float* y) {
  constexpr Layout layout = layout_of(id);
  if constexpr (layout.min) {
    each_panel<P>([&]<int q>() { add_minimums<id, R, pairs>(heads[q], rows, y + q * R * kPanel); });
    forget_registers();
  }
  __m512i sums[P][R];
  for (int i = 0; i < P * R; ++i) sums[i / R][i % R] = _mm512_setzero_si512();
  const uint8_t* record = rows + block_start_bytes(pairs) * R;
#pragma GCC unroll 1
  for (int p = 0; p < pairs; ++p, record += kPairBytes * R)
    each_panel<P>([&]<int q>() { add_pair<id, R, pairs>(heads[q], p, record, sums[q]); });
  each_panel<P>([&]<int q>() {
    __m512 unit;
    if constexpr (layout.is_fine()) unit = _mm512_loadu_ps(heads[q]);
    else unit = load_f16(heads[q]);
    for (int r = 0; r < R; ++r) {
      float* to = y + (q * R + r) * kPanel;
      _mm512_store_ps(to, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[q][r]),
                                          _mm512_mul_ps(unit, broadcast_float(rows + r * 4)), _mm512_load_ps(to)));
    }
  });
  forget_registers();
}

struct Avx512 {
  static constexpr int kTiles[] = {1, 2, 3, 4, 6, 8, 12};

  template <LayoutId id, int R, int P>
  static void block(const uint8_t* const* panels, const uint8_t* records, int groups, float* y) {
    if constexpr (!layout_of(id).paired()) return group_block<id, R, P>(panels, records, groups, y);
    else if (layout_of(id).is_super() || groups > 6) return paired_block<id, R, 4, P>(panels, records, y);
    else if (groups > 4) return paired_block<id, R, 3, P>(panels, records, y);
    else if (groups > 2) return paired_block<id, R, 2, P>(panels, records, y);
    else return paired_block<id, R, 1, P>(panels, records, y);
  }

  template <int R, int P>
  static void halves(const uint8_t* const* panels, const uint8_t* records, int k, float* y) {
    half_tiles<R, P>(panels, records, k, y);
  }

  template <LayoutId id, int R>
  static void outliers(const uint8_t* panel, int groups, const uint32_t* k, const float* values, int count, float* out) {
    __m512 y[R];
    for (int r = 0; r < R; ++r) y[r] = _mm512_load_ps(out + r * kPanel);
    for (int i = 0; i < count; ++i, values += R) {
      const __m512 column = column_of<id>(Place<id>(panel, groups, k[i] % kBlock));
      for (int r = 0; r < R; ++r) y[r] = _mm512_fmadd_ps(column, _mm512_set1_ps(values[r]), y[r]);
    }
    for (int r = 0; r < R; ++r) _mm512_store_ps(out + r * kPanel, y[r]);
  }

  static uint32_t most(const float* x) {
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    const __m512i first = _mm512_and_si512(_mm512_loadu_si512(x), magnitude);
    const __m512i second = _mm512_and_si512(_mm512_loadu_si512(x + 16), magnitude);
    return static_cast<uint32_t>(_mm512_reduce_max_epi32(_mm512_max_epi32(first, second)));
  }

  static uint32_t above(const float* x, float bound) {
    const auto over = [bound](const float* from) {
      return static_cast<uint32_t>(
          _mm512_cmp_ps_mask(_mm512_abs_ps(_mm512_loadu_ps(from)), _mm512_set1_ps(bound), _CMP_GT_OQ));
    };
    return over(x) | over(x + 16) << 16;
  }

  static int32_t quantize(const float* x, float inverse, int8_t* q) {
    const __m512 factor = _mm512_set1_ps(inverse), limit = _mm512_set1_ps(127.f), low = _mm512_set1_ps(-127.f);
    const auto keep = static_cast<__mmask16>(inverse != 0.f ? 0xffff : 0);  // infinity times 0 is NaN
    const auto round = [&](const float* from) {
      const __m512 scaled = _mm512_maskz_mul_ps(keep, _mm512_loadu_ps(from), factor);
      return _mm512_cvtps_epi32(_mm512_max_ps(_mm512_min_ps(scaled, limit), low));
    };
    const __m512i a = round(x), b = round(x + 16);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q), _mm512_cvtepi32_epi8(a));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q + 16), _mm512_cvtepi32_epi8(b));
    return _mm512_reduce_add_epi32(_mm512_add_epi32(a, b));
  }

  static void bf16_row(const float* x, int k, uint16_t* out) {
    const int padded = padded_to_pairs(k);
    for (int i = 0; i < padded; i += 16) {
      const int left = k - i;
      const auto mask = static_cast<__mmask16>(left >= 16 ? 0xffff : left <= 0 ? 0 : (1 << left) - 1);
      const __m256bh halves = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x + i));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), reinterpret_cast<__m256i>(halves));
    }
  }
};

}  // namespace

const LinearKernels& linear_kernels_avx512() {
  static constexpr LinearKernels kernels = kernels_of<Avx512>();
  return kernels;
}

}  // namespace tenfold
#endif
