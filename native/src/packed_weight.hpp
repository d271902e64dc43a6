// How packed weights lie in memory.
//
// A panel is 16 output columns (rows of the checkpoint's matrix) over all of k; panels follow one another, so that
// threads read one long stream. The last panel is padded with zeros. Within a panel, blocks follow in increasing k:
//
//   simple, 32 k:   scale f16[16], (minimum f16[16]), codes of one group
//   super, 256 k:   scale f16[16], (minimum f16[16]), 256 bytes of sub-scales, codes of eight groups
//   fine, 256 k:    unit f32[16]; for each pair of groups the scales in units i16[16][2], the second group's first;
//                   (for each pair the minimums bf16[16][2] likewise); codes. The last block has as many pairs as k
//                   leaves it; a group that only fills a pair has scales of 0.
//
// Codes of a group are bytes b[quad][column][4], quad = 0..7 (k = 4 * quad + 0..3), unsigned, cut into bit planes.
// A plane's 64-byte vectors hold several quads, the first in the lowest bits:
//
//   2 bits: 2 vectors, four quads each      3 bits: the 2-bit plane, then a plane of 1 bit (1 vector, eight quads)
//   4 bits: 4 vectors, two quads each       5 bits: the 4-bit plane, then 1 bit     6 bits: then 2 bits
//   8 bits: 8 vectors
//
// Sub-scales of a super block: sub 32: [group][scale u8[16], minimum u8[16]]; sub 16 with minimum: [sub][scale in the
// low, minimum in the high nibble: u8[16]]; sub 16 without: [sub][scale i8[16]].
//
// A weight's value is scale * (code - offset), plus the minimum if it has one. Minimums of super blocks are
// subtracted; with 4 bits theirs is cut_to_bf16(8 * scale - minimum), the value of code 8.
//
// 4-bit codes less 8 times int8 sum to at most 32512 over a group, which fits 16 bits: pairs of groups meet their
// scales in one multiplication of 16-bit pairs. Scales in units times levels of the activations stay below 2^15, and
// so low that sums over a block fit 32 bits.
//
// bf16 panels: b[ceil(k / 2)][column][2].
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "bf16.hpp"
#include "linear.hpp"

namespace tenfold {

enum class Heads { simple, super, fine };

struct Layout {
  int bits;     // a code; 16 means bf16
  int block;    // elements of k a block: 32 or 256 (2 for bf16)
  int sub;      // elements of k that share a scale
  bool min;     // has minimums
  int offset;   // subtracted from codes
  Heads heads;

  constexpr int subs() const { return 32 / sub; }  // scales, and so dots, of a group of 32
  constexpr bool paired() const { return bits == 4; }
  constexpr bool is_super() const { return heads == Heads::super; }
  constexpr bool is_fine() const { return heads == Heads::fine; }
  constexpr bool nibble_scales() const { return sub == 16 && min; }
  constexpr int group_bytes() const { return 64 * bits; }
  // Of a block with so many pairs; simple and super blocks have but one size.
  constexpr int head_bytes(int pairs = 4) const {
    if (is_fine()) return 64 + pairs * (min ? 128 : 64);
    return (min ? 64 : 32) + (is_super() ? 256 : 0);
  }
  constexpr int block_bytes(int pairs = 4) const {
    if (bits == 16) return 64;
    return head_bytes(pairs) + (is_fine() ? 2 * pairs : block / kGroup) * group_bytes();
  }
};

// The same as template arguments; see find_format for the ggml types they serve.
enum class LayoutId { q4, q4_min, q5, q5_min, q8, k2, k3, k4, k5, k6, bf16 };

constexpr Layout layout_of(LayoutId id) {
  switch (id) {
    case LayoutId::q4: return {4, 256, 32, false, 8, Heads::fine};
    case LayoutId::q4_min: return {4, 256, 32, true, 8, Heads::fine};
    case LayoutId::q5: return {5, 32, 32, false, 16, Heads::simple};
    case LayoutId::q5_min: return {5, 32, 32, true, 0, Heads::simple};
    case LayoutId::q8: return {8, 32, 32, false, 128, Heads::simple};
    case LayoutId::k2: return {2, 256, 16, true, 0, Heads::super};
    case LayoutId::k3: return {3, 256, 16, false, 4, Heads::super};
    case LayoutId::k4: return {4, 256, 32, true, 8, Heads::super};
    case LayoutId::k5: return {5, 256, 32, true, 0, Heads::super};
    case LayoutId::k6: return {6, 256, 16, false, 32, Heads::super};
    default: return {16, 2, 2, false, 0, Heads::simple};
  }
}

// Calls run.operator()<id>() for a layout that is known only now.
template <class Run>
void by_layout(LayoutId id, const Run& run) {
  switch (id) {
    case LayoutId::q4: return run.template operator()<LayoutId::q4>();
    case LayoutId::q4_min: return run.template operator()<LayoutId::q4_min>();
    case LayoutId::q5: return run.template operator()<LayoutId::q5>();
    case LayoutId::q5_min: return run.template operator()<LayoutId::q5_min>();
    case LayoutId::q8: return run.template operator()<LayoutId::q8>();
    case LayoutId::k2: return run.template operator()<LayoutId::k2>();
    case LayoutId::k3: return run.template operator()<LayoutId::k3>();
    case LayoutId::k4: return run.template operator()<LayoutId::k4>();
    case LayoutId::k5: return run.template operator()<LayoutId::k5>();
    case LayoutId::k6: return run.template operator()<LayoutId::k6>();
    case LayoutId::bf16: return run.template operator()<LayoutId::bf16>();
  }
}

// bfloat16 as a float: the nearest, halves away from zero. For finite x.
inline float cut_to_bf16(float x) { return bits_to_float((float_to_bits(x) + 0x8000u) & 0xffff0000u); }

struct Format {
  int ggml_type;
  const char* name;
  LayoutId id;
  int source_block;        // elements a block of the checkpoint
  int source_block_bytes;
};

struct PackedWeight {
  const Format* format;
  Layout layout;
  int n, k, panels;
  size_t panel_bytes;
  size_t bytes;
  float bound;  // no value of an integer layout is larger, whatever its code
  std::shared_ptr<uint8_t> data;

  const uint8_t* panel(int i) const { return data.get() + static_cast<size_t>(i) * panel_bytes; }
};

// The power of two that takes a weight's largest value below 2^15. Integer layouts only.
int weight_exponent(const PackedWeight& w);

// One row taken apart, for tests and twins: codes (offset subtracted), scales and minimums (added) per `layout.sub`.
// minimums is not touched when the layout has none. Integer layouts only.
void unpack_parts(const PackedWeight& w, int row, int32_t* codes, float* scales, float* minimums);

// The units of a 4-bit format's scales, one a block of 256: scale = unit * a whole number.
void unpack_units(const PackedWeight& w, int row, float* units);

}  // namespace tenfold
