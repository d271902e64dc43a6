// Linear kernels in plain C++, for any CPU.
#include <cmath>

#include "bf16.hpp"
#include "linear_driver.hpp"

namespace tenfold {
namespace {

// Codes of a group from its planes, as [k][column].
template <int bits>
void unpack_group(const uint8_t* planes, int16_t codes[kGroup][kPanel]) {
  const uint8_t* high = planes + (bits == 3 ? 128 : 256);
  for (int quad = 0; quad < 8; ++quad) {
    uint8_t bytes[64];
    for (int i = 0; i < 64; ++i) {
      int code;
      if constexpr (bits == 8) code = planes[quad * 64 + i];
      else if constexpr (bits <= 3) code = (planes[quad / 4 * 64 + i] >> (2 * (quad % 4))) & 3;
      else code = (planes[quad / 2 * 64 + i] >> (4 * (quad % 2))) & 15;
      if constexpr (bits == 3) code |= ((high[i] >> quad) & 1) << 2;
      if constexpr (bits == 5) code |= ((high[i] >> quad) & 1) << 4;
      if constexpr (bits == 6) code |= ((high[quad / 4 * 64 + i] >> (2 * (quad % 4))) & 3) << 4;
      bytes[i] = static_cast<uint8_t>(code);
    }
    for (int c = 0; c < kPanel; ++c)
      for (int j = 0; j < 4; ++j) codes[quad * 4 + j][c] = bytes[c * 4 + j];
  }
}

void load_f16(const uint8_t* from, float* out) {
  for (int c = 0; c < kPanel; ++c) {
    uint16_t half;
    std::memcpy(&half, from + 2 * c, 2);
    out[c] = f16_to_float(half);
  }
}

struct Scales { float scale[2][kPanel], minimum[2][kPanel]; };

template <LayoutId id>
void group_scales(const uint8_t* subs, int group, const float* scale, const float* minimum, Scales& out) {
  constexpr Layout layout = layout_of(id);
  for (int s = 0; s < layout.subs(); ++s)
    for (int c = 0; c < kPanel; ++c) {
      if constexpr (!layout.is_super()) {
        out.scale[s][c] = scale[c];
        if (layout.min) out.minimum[s][c] = minimum[c];
      } else if constexpr (layout.nibble_scales()) {
        const uint8_t both = subs[(group * 2 + s) * kPanel + c];
        out.scale[s][c] = scale[c] * static_cast<float>(both & 15);
        out.minimum[s][c] = -minimum[c] * static_cast<float>(both >> 4);
      } else if constexpr (layout.min) {
        out.scale[s][c] = scale[c] * static_cast<float>(subs[group * 32 + c]);
        out.minimum[s][c] = -minimum[c] * static_cast<float>(subs[group * 32 + 16 + c]);
      } else {
        const auto sub = static_cast<int8_t>(subs[(group * 2 + s) * kPanel + c]);
        out.scale[s][c] = scale[c] * static_cast<float>(sub);
      }
    }
}

template <LayoutId id, int R>
void add_group(const int16_t codes[kGroup][kPanel], const Scales& scales, const uint8_t* record, float* y) {
  constexpr Layout layout = layout_of(id);
  for (int r = 0; r < R; ++r) {
    const auto* q = reinterpret_cast<const int8_t*>(record) + r * kGroup;
    float act_scale;
    std::memcpy(&act_scale, record + R * kGroup + r * 4, 4);
    for (int s = 0; s < layout.subs(); ++s) {
      const uint8_t* word = record + R * (kGroup + 4 + s * 4) + r * 4;
      int32_t start = 0;
      float weighted = 0.f;
      if (layout.min) std::memcpy(&weighted, word, 4);
      else std::memcpy(&start, word, 4);
      int32_t dot[kPanel];
      for (int c = 0; c < kPanel; ++c) dot[c] = start;
      for (int i = s * layout.sub; i < (s + 1) * layout.sub; ++i)
        for (int c = 0; c < kPanel; ++c) dot[c] += codes[i][c] * static_cast<int16_t>(q[i]);
      for (int c = 0; c < kPanel; ++c) {
        float sum = std::fmaf(static_cast<float>(dot[c]), scales.scale[s][c] * act_scale, y[r * kPanel + c]);
        if (layout.min) sum = std::fmaf(scales.minimum[s][c], weighted, sum);
        y[r * kPanel + c] = sum;
      }
    }
  }
}

struct Generic {
  static constexpr int kTiles[] = {1, 4};

  template <LayoutId id, int R>
  static void tile(const uint8_t* panel, const TileRows& tile, int k, float* y) {
    constexpr Layout layout = layout_of(id);
    const uint8_t* rows = tile.records;
    for (int i = 0; i < R * kPanel; ++i) y[i] = 0.f;
    if constexpr (layout.bits == 16) {
      const auto* weights = reinterpret_cast<const uint16_t*>(panel);
      for (int i = 0; i < k; ++i)
        for (int r = 0; r < R; ++r) {
          uint16_t half;
          std::memcpy(&half, rows + (static_cast<size_t>(i / kGroup) * R + r) * 64 + i % kGroup * 2, 2);
          const float x = bf16_to_float(half);
          for (int c = 0; c < kPanel; ++c) {
            const float w = bf16_to_float(weights[static_cast<size_t>(i / 2) * 32 + c * 2 + i % 2]);
            y[r * kPanel + c] = std::fmaf(w, x, y[r * kPanel + c]);
          }
        }
    } else {
      const uint8_t* refined = tile.refined;
      float scale[kPanel], minimum[kPanel] = {};
      int16_t codes[kGroup][kPanel];
      Scales scales;
      for (int at = 0; at < k; at += layout.block, panel += layout.block_bytes()) {
        load_f16(panel, scale);
        if (layout.min) load_f16(panel + 32, minimum);
        for (int g = 0; g < layout.block / kGroup; ++g) {
          group_scales<id>(panel + layout.head_bytes() - 256, g, scale, minimum, scales);
          unpack_group<layout.bits>(panel + layout.head_bytes() + g * layout.group_bytes(), codes);
          for (int parts = 1 + *refined++; parts > 0; --parts, rows += record_bytes(layout, R))
            add_group<id, R>(codes, scales, rows, y);
        }
      }
    }
  }
};

// Not finite: the scale is NaN, so that products are too, and q is zero.
void quantize_group(const float* x, int count, int8_t* q, float* scale, int32_t* sum) {
  uint32_t most = 0;
  for (int i = 0; i < count; ++i) {
    const uint32_t magnitude = float_to_bits(x[i]) & 0x7fffffffu;
    most = magnitude > most ? magnitude : most;
  }
  const bool finite = most < 0x7f800000u;
  *scale = finite ? bits_to_float(most) / 127.f : bits_to_float(0x7fc00000u);
  *sum = 0;
  for (int i = 0; i < kGroup; ++i) {
    float value = 0.f;
    if (finite && *scale > 0.f && i < count) value = std::nearbyintf(x[i] / *scale);
    // A scale that is denormal is coarse, and the quotient may pass 127.
    value = value > 127.f ? 127.f : value < -127.f ? -127.f : value;
    q[i] = static_cast<int8_t>(value);
    *sum += q[i];
  }
}

void quantize_row(const float* x, int k, const QuantizedRow& out) {
  for (int at = 0, g = 0; at < k; at += kGroup, ++g)
    quantize_group(x + at, k - at < kGroup ? k - at : kGroup, out.q + at, out.scale + g, out.sum + g);
  refine_row(x, k, out);
}

void bf16_row(const float* x, int k, uint16_t* out) {
  const int padded = (k + kGroup - 1) / kGroup * kGroup;
  for (int i = 0; i < k; ++i) out[i] = float_to_bf16(x[i]);
  for (int i = k; i < padded; ++i) out[i] = 0;
}

}  // namespace

const LinearKernels& linear_kernels_generic() {
  static constexpr LinearKernels kernels{quantize_row, bf16_row, multiply<Generic>};
  return kernels;
}

}  // namespace tenfold
