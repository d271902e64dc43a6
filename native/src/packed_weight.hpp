// How packed weights lie in memory.
//
// A panel is 16 output columns (rows of the checkpoint's matrix) over all of k; panels follow one another, so that
// threads read one long stream. The last panel is padded with zeros. Within a panel, blocks follow in increasing k:
//
//   block of 32 (simple):   scale f16[16], (minimum f16[16]), codes of one group
//   block of 256 (super):   scale f16[16], (minimum f16[16]), 256 bytes of sub-scales, codes of eight groups
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
// A weight's value is scale * (code - offset), or scale * code + minimum; minimums of super blocks are subtracted.
//
// bf16 panels: b[ceil(k / 2)][column][2].
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tenfold {

struct Layout {
  int bits;     // a code; 16 means bf16
  int block;    // elements of k a block: 32 or 256 (2 for bf16)
  int sub;      // elements of k that share a scale
  bool min;     // has minimums
  int offset;   // subtracted from codes when there are no minimums

  constexpr int subs() const { return 32 / sub; }                      // scales, and so dots, of a group of 32
  constexpr int head_bytes() const { return block == 32 ? group_head() : group_head() + 256; }
  constexpr int group_bytes() const { return 64 * bits; }
  constexpr int block_bytes() const { return bits == 16 ? 64 : head_bytes() + block / 32 * group_bytes(); }
  constexpr bool is_super() const { return block == 256; }
  constexpr bool nibble_scales() const { return sub == 16 && min; }
 private:
  constexpr int group_head() const { return min ? 64 : 32; }
};

// The same as template arguments; see find_format for the ggml types they serve.
enum class LayoutId { q4, q4_min, q5, q5_min, q8, k2, k3, k4, k5, k6, bf16 };

constexpr Layout layout_of(LayoutId id) {
  switch (id) {
    case LayoutId::q4: return {4, 32, 32, false, 8};
    case LayoutId::q4_min: return {4, 32, 32, true, 0};
    case LayoutId::q5: return {5, 32, 32, false, 16};
    case LayoutId::q5_min: return {5, 32, 32, true, 0};
    case LayoutId::q8: return {8, 32, 32, false, 128};
    case LayoutId::k2: return {2, 256, 16, true, 0};
    case LayoutId::k3: return {3, 256, 16, false, 4};
    case LayoutId::k4: return {4, 256, 32, true, 0};
    case LayoutId::k5: return {5, 256, 32, true, 0};
    case LayoutId::k6: return {6, 256, 16, false, 32};
    default: return {16, 2, 2, false, 0};
  }
}

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
  std::shared_ptr<uint8_t> data;

  const uint8_t* panel(int i) const { return data.get() + static_cast<size_t>(i) * panel_bytes; }
};

// One row taken apart, for tests and twins: codes (offset subtracted), scales and minimums (added) per `layout.sub`.
// minimums is not touched when the layout has none. Integer layouts only.
void unpack_parts(const PackedWeight& w, int row, int32_t* codes, float* scales, float* minimums);

}  // namespace tenfold
