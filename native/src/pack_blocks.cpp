#include "pack_blocks.hpp"

#include <cstring>

#include "bf16.hpp"

namespace tenfold {
namespace {

constexpr Format kFormats[] = {
    {0, "f32", LayoutId::bf16, 1, 4},       {1, "f16", LayoutId::bf16, 1, 2},     {2, "q4_0", LayoutId::q4, 32, 18},
    {3, "q4_1", LayoutId::q4_min, 32, 20},  {6, "q5_0", LayoutId::q5, 32, 22},    {7, "q5_1", LayoutId::q5_min, 32, 24},
    {8, "q8_0", LayoutId::q8, 32, 34},      {10, "q2_k", LayoutId::k2, 256, 84},  {11, "q3_k", LayoutId::k3, 256, 110},
    {12, "q4_k", LayoutId::k4, 256, 144},   {13, "q5_k", LayoutId::k5, 256, 176}, {14, "q6_k", LayoutId::k6, 256, 210},
    {30, "bf16", LayoutId::bf16, 1, 2},
};

bool finite16(uint16_t bits) { return (bits & 0x7c00u) != 0x7c00u; }

// 16 bytes of nibbles: elements 0..15 in the low, 16..31 in the high ones.
void nibbles_of_32(const uint8_t* p, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) codes[i] = p[i] & 15;
  for (int i = 0; i < 16; ++i) codes[16 + i] = static_cast<uint8_t>(p[i] >> 4);
}

// 32 bits, one an element, as bit 4 of the codes.
void fifth_bits_of_32(const uint8_t* p, uint8_t* codes) {
  uint32_t bits;
  std::memcpy(&bits, p, 4);
  for (int i = 0; i < 32; ++i) codes[i] |= static_cast<uint8_t>(((bits >> i) & 1u) << 4);
}

// Codes of 256 in 64 bytes: each 32 bytes hold 128 elements, 32 for each pair of bits.
void pairs_of_256(const uint8_t* p, uint8_t* codes) {
  for (int half = 0; half < 2; ++half)
    for (int pair = 0; pair < 4; ++pair)
      for (int i = 0; i < 32; ++i)
        codes[half * 128 + pair * 32 + i] = static_cast<uint8_t>((p[half * 32 + i] >> (2 * pair)) & 3);
}

// Codes of 256 in 128 bytes: each 32 bytes hold 64 elements, low nibbles first.
void nibbles_of_256(const uint8_t* p, uint8_t* codes) {
  for (int part = 0; part < 4; ++part)
    for (int i = 0; i < 32; ++i) {
      const uint8_t byte = p[part * 32 + i];
      codes[part * 64 + i] = byte & 15;
      codes[part * 64 + 32 + i] = static_cast<uint8_t>(byte >> 4);
    }
}

// 32 bytes: bit b of byte i belongs to element 32 * b + i.
void bits_of_256(const uint8_t* p, int position, uint8_t* codes) {
  for (int b = 0; b < 8; ++b)
    for (int i = 0; i < 32; ++i) codes[b * 32 + i] |= static_cast<uint8_t>(((p[i] >> b) & 1) << position);
}

// Eight 6-bit scales and eight 6-bit minimums in 12 bytes: the first four of each plain, the others with their low
// nibbles in the last four bytes and their two high bits on top of the first eight.
void scales_k4(const uint8_t* p, uint8_t* scales, uint8_t* minimums) {
  for (int i = 0; i < 4; ++i) {
    scales[i] = p[i] & 63;
    minimums[i] = p[4 + i] & 63;
    scales[4 + i] = static_cast<uint8_t>((p[8 + i] & 15) | ((p[i] >> 6) << 4));
    minimums[4 + i] = static_cast<uint8_t>((p[8 + i] >> 4) | ((p[4 + i] >> 6) << 4));
  }
}

// Sixteen 6-bit scales less 32 in 12 bytes: low nibbles in the first eight, pairs of high bits in the last four.
void scales_k3(const uint8_t* p, uint8_t* scales) {
  for (int i = 0; i < 16; ++i) {
    const int low = i < 8 ? p[i] & 15 : p[i - 8] >> 4;
    const int high = (p[8 + i % 4] >> (2 * (i / 4))) & 3;
    scales[i] = static_cast<uint8_t>((low | (high << 4)) - 32);
  }
}

// `minimum` is its offset in the block, or -1.
int read_scales(const uint8_t* block, int scale, int minimum, BlockParts& out) {
  out.scale = load16(block + scale);
  if (!finite16(out.scale)) return scale;
  if (minimum < 0) return -1;
  out.minimum = load16(block + minimum);
  return finite16(out.minimum) ? -1 : minimum;
}

}  // namespace

const Format* find_format(int ggml_type) {
  for (const Format& format : kFormats)
    if (format.ggml_type == ggml_type) return &format;
  return nullptr;
}

int read_block(LayoutId id, const uint8_t* p, BlockParts& out) {
  switch (id) {
    case LayoutId::q4:
      nibbles_of_32(p + 2, out.codes);
      return read_scales(p, 0, -1, out);
    case LayoutId::q4_min:
      nibbles_of_32(p + 4, out.codes);
      return read_scales(p, 0, 2, out);
    case LayoutId::q5:
      nibbles_of_32(p + 6, out.codes);
      fifth_bits_of_32(p + 2, out.codes);
      return read_scales(p, 0, -1, out);
    case LayoutId::q5_min:
      nibbles_of_32(p + 8, out.codes);
      fifth_bits_of_32(p + 4, out.codes);
      return read_scales(p, 0, 2, out);
    case LayoutId::q8:
      for (int i = 0; i < 32; ++i) out.codes[i] = p[2 + i] ^ 0x80u;
      return read_scales(p, 0, -1, out);
    case LayoutId::k2:
      std::memcpy(out.sub_scales, p, 16);
      pairs_of_256(p + 16, out.codes);
      return read_scales(p, 80, 82, out);
    case LayoutId::k3:
      pairs_of_256(p + 32, out.codes);
      bits_of_256(p, 2, out.codes);
      scales_k3(p + 96, out.sub_scales);
      return read_scales(p, 108, -1, out);
    case LayoutId::k4:
      scales_k4(p + 4, out.sub_scales, out.sub_minimums);
      nibbles_of_256(p + 16, out.codes);
      return read_scales(p, 0, 2, out);
    case LayoutId::k5:
      scales_k4(p + 4, out.sub_scales, out.sub_minimums);
      nibbles_of_256(p + 48, out.codes);
      bits_of_256(p + 16, 4, out.codes);
      return read_scales(p, 0, 2, out);
    case LayoutId::k6:
      for (int half = 0; half < 2; ++half)  // 64 bytes of low nibbles and 32 of high pairs make 128 elements
        for (int i = 0; i < 32; ++i) {
          const uint8_t* low = p + half * 64 + i;
          const int high = p[128 + half * 32 + i];
          uint8_t* codes = out.codes + half * 128 + i;
          codes[0] = static_cast<uint8_t>((low[0] & 15) | ((high & 3) << 4));
          codes[32] = static_cast<uint8_t>((low[32] & 15) | (((high >> 2) & 3) << 4));
          codes[64] = static_cast<uint8_t>((low[0] >> 4) | (((high >> 4) & 3) << 4));
          codes[96] = static_cast<uint8_t>((low[32] >> 4) | ((high >> 6) << 4));
        }
      std::memcpy(out.sub_scales, p + 192, 16);
      return read_scales(p, 208, -1, out);
    case LayoutId::bf16: break;
  }
  return 0;
}

}  // namespace tenfold
