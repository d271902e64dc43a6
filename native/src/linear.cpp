// Choice of kernels, and reading packed weights back.
#include "linear.hpp"

#include <cstdlib>
#include <new>

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

// Scale and minimum (added) of column c for sub-block `sub` of the block at `head`.
ScalePair scales_of(const Layout& layout, const uint8_t* head, int c, int sub) {
  const float scale = f16_to_float(load16(head + 2 * c));
  const float minimum = layout.min ? f16_to_float(load16(head + 32 + 2 * c)) : 0.f;
  if (!layout.is_super()) return {scale, minimum};
  const uint8_t* subs = head + layout.head_bytes() - 256;
  if (layout.nibble_scales()) {
    const uint8_t both = subs[sub * 16 + c];
    return {scale * static_cast<float>(both & 15), -minimum * static_cast<float>(both >> 4)};
  }
  if (layout.min)
    return {scale * static_cast<float>(subs[sub * 32 + c]), -minimum * static_cast<float>(subs[sub * 32 + 16 + c])};
  return {scale * static_cast<float>(static_cast<int8_t>(subs[sub * 16 + c])), 0.f};
}

// Calls visit(k index, code less offset, scales) over a row of an integer layout.
template <class Visit>
void walk_row(const PackedWeight& w, int row, const Visit& visit) {
  const Layout& layout = w.layout;
  const int c = row % kPanel;
  const uint8_t* block = w.panel(row / kPanel);
  for (int at = 0; at < w.k; at += layout.block, block += layout.block_bytes())
    for (int i = 0; i < layout.block; i += layout.sub) {
      const ScalePair scales = scales_of(layout, block, c, i / layout.sub);
      const uint8_t* group = block + layout.head_bytes() + i / kGroup * layout.group_bytes();
      for (int j = 0; j < layout.sub; ++j)
        visit(at + i + j, code_of(layout.bits, group, c, i % kGroup + j) - layout.offset, scales);
    }
}

struct Scratch {
  uint8_t* data = nullptr;
  size_t bytes = 0;
  ~Scratch() { std::free(data); }
};

}  // namespace

uint8_t* linear_scratch(size_t bytes) {
  thread_local Scratch scratch;
  if (scratch.bytes < bytes) {
    std::free(scratch.data);
    scratch.bytes = (bytes + 4095) / 4096 * 4096;
    scratch.data = static_cast<uint8_t*>(std::aligned_alloc(64, scratch.bytes));
    if (scratch.data == nullptr) {
      scratch.bytes = 0;
      throw std::bad_alloc();
    }
  }
  return scratch.data;
}

const LinearKernels& linear_kernels(Isa isa) {
#ifdef TENFOLD_X86
  if (isa == Isa::avx512) return linear_kernels_avx512();
  if (isa == Isa::avx2) return linear_kernels_avx2();
#endif
  (void)isa;
  return linear_kernels_generic();
}

int weight_rows(const PackedWeight& w) { return w.n; }
int weight_columns(const PackedWeight& w) { return w.k; }
int weight_panels(const PackedWeight& w) { return w.panels; }
size_t weight_bytes(const PackedWeight& w) { return w.bytes; }
bool wants_int8(const PackedWeight& w) { return w.layout.bits != 16; }
const char* weight_format(const PackedWeight& w) { return w.format->name; }

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

}  // namespace tenfold
