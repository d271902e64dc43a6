// Choice of kernels, and reading packed weights back.
#include "linear.hpp"

#include <cmath>
#include <cstring>

#include "aligned.hpp"
#include "bf16.hpp"
#include "linear_tables.hpp"
#include "packed_weight.hpp"

namespace tenfold {
namespace {

// Code of one element: `base` points at the group's planes, column c, element i of the group.
int code_of(int bits, const uint8_t* base, int c, int i) {
  const int quad = i / 4, lane = c * 4 + i % 4;
  const auto bits_at = [lane](const uint8_t* plane, int width, int q) {
    const int per_vector = 8 / width;
    return (plane[q / per_vector * 64 + lane] >> (width * (q % per_vector))) & ((1 << width) - 1);
  };
  switch (bits) {
    case 2: return bits_at(base, 2, quad);
    case 3: return bits_at(base, 2, quad) | (bits_at(base + 128, 1, quad) << 2);
    case 4: return bits_at(base, 4, quad);
    case 5: return bits_at(base, 4, quad) | (bits_at(base + 256, 1, quad) << 4);
    case 6: return bits_at(base, 4, quad) | (bits_at(base + 256, 2, quad) << 4);
    default: return bits_at(base, 8, quad);
  }
}

struct ScalePair { float scale, minimum; };

// Scale and minimum (added) of column c for sub-block `sub` of the fine block of so many pairs at `head`.
ScalePair fine_scales(const Layout& layout, const uint8_t* head, int pairs, int c, int sub) {
  const uint8_t* scales = head + 64 + sub / 2 * 64 + c * 4 + (sub % 2 == 0 ? 2 : 0);
  const auto units = static_cast<float>(static_cast<int16_t>(load16(scales)));
  return {load_float(head + 4 * c) * units, layout.min ? bf16_to_float(load16(scales + pairs * 64)) : 0.f};
}

// The same for simple and super blocks.
ScalePair scales_of(const Layout& layout, const uint8_t* head, int c, int sub) {
  const float scale = f16_to_float(load16(head + 2 * c));
  const float minimum = layout.min ? f16_to_float(load16(head + 32 + 2 * c)) : 0.f;
  if (!layout.is_super()) return {scale, minimum};
  const uint8_t* subs = head + layout.head_bytes() - 256;
  if (layout.nibble_scales()) {
    const uint8_t both = subs[sub * 16 + c];
    return {scale * static_cast<float>(both & 15), -minimum * static_cast<float>(both >> 4)};
  }
  if (layout.min) {
    const float whole = scale * static_cast<float>(subs[sub * 32 + c]);
    const float taken = minimum * static_cast<float>(subs[sub * 32 + 16 + c]);
    return {whole, layout.paired() ? cut_to_bf16(8.f * whole - taken) : -taken};
  }
  return {scale * static_cast<float>(static_cast<int8_t>(subs[sub * 16 + c])), 0.f};
}

// Calls visit(k index, code less offset, scales) over a row of an integer layout.
template <class Visit>
void walk_row(const PackedWeight& w, int row, const Visit& visit) {
  const Layout& layout = w.layout;
  const int c = row % kPanel;
  const uint8_t* block = w.panel(row / kPanel);
  for (int at = 0, number = 0; at < w.k; at += layout.block, ++number) {
    const int pairs = layout.is_fine() ? pairs_in_block(w.k, number) : 4;
    for (int i = 0; i < layout.block && at + i < w.k; i += layout.sub) {
      const int sub = i / layout.sub;
      const ScalePair scales =
          layout.is_fine() ? fine_scales(layout, block, pairs, c, sub) : scales_of(layout, block, c, sub);
      const uint8_t* group = block + layout.head_bytes(pairs) + i / kGroup * layout.group_bytes();
      for (int j = 0; j < layout.sub; ++j)
        visit(at + i + j, code_of(layout.bits, group, c, i % kGroup + j) - layout.offset, scales);
    }
    block += layout.block_bytes(pairs);
  }
}

}  // namespace

uint8_t* linear_scratch(size_t bytes) {
  thread_local AlignedArray<uint8_t> scratch;
  if (scratch.bytes() < bytes) {
    scratch = {};
    scratch = AlignedArray<uint8_t>(bytes);
  }
  return scratch.get();
}

const LinearKernels& linear_kernels(Isa isa) {
#ifdef TENFOLD_X86
#ifdef TENFOLD_AMX
  if (isa == Isa::amx) return linear_kernels_amx();
#endif
  if (isa >= Isa::avx512) return linear_kernels_avx512();
  if (isa == Isa::avx2) return linear_kernels_avx2();
#endif
  (void)isa;
  return linear_kernels_generic();
}

int weight_rows(const PackedWeight& w) { return w.n; }
int weight_columns(const PackedWeight& w) { return w.k; }
int weight_panels(const PackedWeight& w) { return w.panels; }
size_t weight_bytes(const PackedWeight& w) { return w.bytes; }
Form weight_form(const LinearKernels& kernels, const PackedWeight& w) {
  if (w.layout.bits == 16) return kHalves;
  return kernels.quad_row != nullptr ? kQuads : w.layout.paired() ? kPairs : kGroups;
}
const char* weight_format(const PackedWeight& w) { return w.format->name; }

int weight_exponent(const PackedWeight& w) {
  int exponent = 0;
  std::frexp(w.bound, &exponent);
  return w.bound > 0.f ? 15 - exponent : 0;
}

void unpack_row(const PackedWeight& w, int row, float* out) {
  if (w.layout.bits == 16) {
    const uint8_t* base = w.panel(row / kPanel) + row % kPanel * 4;
    for (int i = 0; i < w.k; ++i) out[i] = bf16_to_float(load16(base + static_cast<size_t>(i / 2) * 64 + i % 2 * 2));
    return;
  }
  const bool has_minimum = w.layout.min;
  walk_row(w, row, [&](int i, int code, const ScalePair& s) {
    const float product = s.scale * static_cast<float>(code);
    out[i] = has_minimum ? product + s.minimum : product;
  });
}

void unpack_parts(const PackedWeight& w, int row, int32_t* codes, float* scales, float* minimums) {
  walk_row(w, row, [&](int i, int code, const ScalePair& s) {
    codes[i] = code;
    scales[i / w.layout.sub] = s.scale;
    if (w.layout.min) minimums[i / w.layout.sub] = s.minimum;
  });
}

void unpack_units(const PackedWeight& w, int row, float* units) {
  const int c = row % kPanel;
  for (int block = 0; block < blocks_of(w.k); ++block) {
    const uint8_t* head = w.panel(row / kPanel) + static_cast<size_t>(block) * w.layout.block_bytes();
    units[block] = w.layout.is_fine() ? load_float(head + 4 * c) : f16_to_float(load16(head + 2 * c));
  }
}

}  // namespace tenfold
