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

// Formats that are not 4-bit: for each scale of a group y += dot * (weight's scale * activation's scale), then
// y += minimum * sum.
template <LayoutId id, int R>
void add_group(const int16_t codes[kGroup][kPanel], const Scales& scales, const uint8_t* record, float* y) {
  constexpr Layout layout = layout_of(id);
  for (int r = 0; r < R; ++r) {
    const auto* q = reinterpret_cast<const int8_t*>(record) + r * kGroup;
    const float act_scale = load_float(record + R * kGroup + r * 4);
    for (int s = 0; s < layout.subs(); ++s) {
      const int which = layout.subs() == 2 ? 1 + s : 0;  // of the group's three sums
      int32_t sum;
      std::memcpy(&sum, record + R * (kGroup + 4 + 4 * which) + r * 4, 4);
      const float weighted = load_float(record + R * (kGroup + 16 + 4 * which) + r * 4);
      uint32_t dot[kPanel];  // unsigned, as lanes that only fill the tile may overflow
      const uint32_t start = 0u - static_cast<uint32_t>(layout.offset) * static_cast<uint32_t>(sum);
      for (int c = 0; c < kPanel; ++c) dot[c] = start;
      for (int i = s * layout.sub; i < (s + 1) * layout.sub; ++i)
        for (int c = 0; c < kPanel; ++c) dot[c] += static_cast<uint32_t>(codes[i][c] * static_cast<int16_t>(q[i]));
      for (int c = 0; c < kPanel; ++c) {
        float total = std::fmaf(static_cast<float>(static_cast<int32_t>(dot[c])), scales.scale[s][c] * act_scale, y[r * kPanel + c]);
        if (layout.min) total = std::fmaf(scales.minimum[s][c], weighted, total);
        y[r * kPanel + c] = total;
      }
    }
  }
}

template <LayoutId id, int R>
void group_block(const uint8_t* panel, const uint8_t* rows, int groups, float* y) {
  constexpr Layout layout = layout_of(id);
  float scale[kPanel], minimum[kPanel] = {};
  int16_t codes[kGroup][kPanel];
  Scales scales;
  for (int at = 0; at < groups * kGroup; at += layout.block, panel += layout.block_bytes()) {
    load_f16(panel, scale);
    if (layout.min) load_f16(panel + 32, minimum);
    for (int g = 0; g < layout.block / kGroup; ++g, rows += kGroupBytes * R) {
      group_scales<id>(panel + layout.head_bytes() - 256, g, scale, minimum, scales);
      unpack_group<layout.bits>(panel + layout.head_bytes() + g * layout.group_bytes(), codes);
      add_group<id, R>(codes, scales, rows, y);
    }
  }
}

// What a block of a 4-bit format multiplies with: the unit of its scales, and by group scales in units and minimums.
struct PairedHead { float unit[kPanel]; int32_t scales[kBlockGroups][kPanel]; float minimums[kBlockGroups][kPanel]; };

template <LayoutId id>
void paired_head(const uint8_t* head, int pairs, PairedHead& out) {
  constexpr Layout layout = layout_of(id);
  for (int c = 0; c < kPanel; ++c) {
    out.unit[c] = layout.is_fine() ? load_float(head + 4 * c) : finite_f16(load16(head + 2 * c));
    for (int g = 0; g < 2 * pairs; ++g) {
      if constexpr (layout.is_fine()) {
        out.scales[g][c] = static_cast<int16_t>(load16(head + 64 + g / 2 * 64 + c * 4 + (g % 2 == 0 ? 2 : 0)));
        if (layout.min) out.minimums[g][c] = fine_minimum(head, pairs, g, c);
      } else {
        out.scales[g][c] = head[64 + g * 32 + c];
        out.minimums[g][c] = k4_minimum(head, g, c);
      }
    }
  }
}

// 4-bit formats, a block at a time: first y += minimum * sum for each group, both in bfloat16; then the block's dots
// times scales times levels, summed in whole numbers, and y += sum * (unit of the scales * unit of the row).
template <LayoutId id, int R>
void paired_block(const uint8_t* panel, const uint8_t* rows, int groups, float* y) {
  constexpr Layout layout = layout_of(id);
  const int pairs = (groups + 1) / 2;
  const uint8_t* planes = panel + layout.head_bytes(pairs);
  PairedHead head;
  paired_head<id>(panel, pairs, head);
  uint32_t sums[R][kPanel] = {};  // lanes that only fill the tile hold anything, and may overflow
  for (int g = 0; g < 2 * pairs; ++g) {
    int16_t codes[kGroup][kPanel];
    unpack_group<4>(planes + g * layout.group_bytes(), codes);
    const uint8_t* pair = rows + (block_start_bytes(pairs) + kPairBytes * (g / 2)) * R;
    for (int r = 0; r < R; ++r) {
      const auto* q = reinterpret_cast<const int8_t*>(pair) + r * kPair + g % 2 * kGroup;
      uint32_t levels, both_sums;
      std::memcpy(&levels, pair + R * (kPair + 12) + r * 4, 4);
      std::memcpy(&both_sums, rows + R * 4 * (1 + g / 2) + r * 4, 4);
      const uint32_t level = g % 2 == 0 ? levels >> 16 : levels & 0xffffu;
      const float sum = bits_to_float(g % 2 == 0 ? both_sums & 0xffff0000u : both_sums << 16);
      int32_t dot[kPanel] = {};
      for (int i = 0; i < kGroup; ++i)
        for (int c = 0; c < kPanel; ++c) dot[c] += (codes[i][c] - 8) * static_cast<int16_t>(q[i]);
      for (int c = 0; c < kPanel; ++c) {
        sums[r][c] += static_cast<uint32_t>(dot[c]) * (static_cast<uint32_t>(head.scales[g][c]) * level);
        if (layout.min) y[r * kPanel + c] += head.minimums[g][c] * sum;  // the product is exact
      }
    }
  }
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < kPanel; ++c)
      y[r * kPanel + c] =
          std::fmaf(static_cast<float>(static_cast<int32_t>(sums[r][c])), head.unit[c] * load_float(rows + r * 4), y[r * kPanel + c]);
}

template <int R>
void half_tile(const uint8_t* panel, const uint8_t* rows, int k, float* y) {
  const auto* weights = reinterpret_cast<const uint16_t*>(panel);
  for (int i = 0; i < k; ++i)
    for (int r = 0; r < R; ++r) {
      const float x = bf16_to_float(load16(rows + (static_cast<size_t>(i / kGroup) * R + r) * kHalfBytes + i % kGroup * 2));
      for (int c = 0; c < kPanel; ++c) {
        const float w = bf16_to_float(weights[static_cast<size_t>(i / 2) * 32 + c * 2 + i % 2]);
        y[r * kPanel + c] = std::fmaf(w, x, y[r * kPanel + c]);
      }
    }
}

// Values of element `e` of a group, all columns, from its planes: code - offset.
template <LayoutId id>
void codes_of(const uint8_t* planes, int e, float* out) {
  constexpr int bits = layout_of(id).bits;
  const int quad = e / 4;
  const auto bits_at = [e](const uint8_t* plane, int width, int q, int c) {
    const int per_vector = 8 / width;
    uint32_t word;
    std::memcpy(&word, plane + q / per_vector * 64 + c * 4, 4);
    return static_cast<int>((word >> (e % 4 * 8 + width * (q % per_vector))) & ((1u << width) - 1u));
  };
  for (int c = 0; c < kPanel; ++c) {
    int code;
    if constexpr (bits == 8) code = bits_at(planes, 8, quad, c);
    else if constexpr (bits <= 3) code = bits_at(planes, 2, quad, c);
    else code = bits_at(planes, 4, quad, c);
    if constexpr (bits == 3) code |= bits_at(planes + 128, 1, quad, c) << 2;
    if constexpr (bits == 5) code |= bits_at(planes + 256, 1, quad, c) << 4;
    if constexpr (bits == 6) code |= bits_at(planes + 256, 2, quad, c) << 4;
    out[c] = static_cast<float>(code - layout_of(id).offset);
  }
}

template <LayoutId id>
void column_of(const Place<id>& place, float* out) {
  constexpr Layout layout = layout_of(id);
  const uint8_t* head = place.head;
  const int g = place.group, s = place.sub;
  codes_of<id>(place.planes, place.element, out);
  for (int c = 0; c < kPanel; ++c) {
    float scale, minimum = 0.f;
    if constexpr (layout.is_fine()) {
      scale = fine_scale(head, g, c);
      if (layout.min) minimum = fine_minimum(head, place.pairs, g, c);
    } else if constexpr (id == LayoutId::k4) {
      scale = k4_scale(head, g, c);
      minimum = k4_minimum(head, g, c);
    } else {
      scale = finite_f16(load16(head + 2 * c));
      if (layout.min) minimum = finite_f16(load16(head + 32 + 2 * c));
      const uint8_t* subs = head + layout.head_bytes() - 256;
      if constexpr (layout.nibble_scales()) {
        const uint8_t both = subs[s * 16 + c];
        scale *= static_cast<float>(both & 15);
        minimum *= -static_cast<float>(both >> 4);
      } else if constexpr (layout.is_super() && layout.min) {
        scale *= static_cast<float>(subs[s * 32 + c]);
        minimum *= -static_cast<float>(subs[s * 32 + 16 + c]);
      } else if constexpr (layout.is_super()) {
        scale *= static_cast<float>(static_cast<int8_t>(subs[s * 16 + c]));
      }
    }
    out[c] = layout.min ? scale * out[c] + minimum : scale * out[c];
  }
}

struct Generic {
  static constexpr int kTiles[] = {1, 4};

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
    float column[kPanel];
    for (int i = 0; i < count; ++i, values += R) {
      column_of<id>(Place<id>(panel, groups, k[i] % kBlock), column);
      for (int r = 0; r < R; ++r)
        for (int c = 0; c < kPanel; ++c) y[r * kPanel + c] = std::fmaf(values[r], column[c], y[r * kPanel + c]);
    }
  }

  static uint32_t most(const float* x) {
    uint32_t most = 0;
    for (int i = 0; i < kGroup; ++i) most = std::max(most, float_to_bits(x[i]) & 0x7fffffffu);
    return most;
  }

  static uint32_t above(const float* x, float bound) {
    uint32_t bits = 0;
    for (int i = 0; i < kGroup; ++i) bits |= static_cast<uint32_t>(std::fabs(x[i]) > bound) << i;
    return bits;
  }

  static int32_t quantize(const float* x, float inverse, int8_t* q) {
    int32_t sum = 0;
    for (int i = 0; i < kGroup; ++i) {
      const float scaled = inverse != 0.f ? x[i] * inverse : 0.f;
      q[i] = static_cast<int8_t>(std::nearbyintf(scaled > 127.f ? 127.f : scaled < -127.f ? -127.f : scaled));
      sum += q[i];
    }
    return sum;
  }

  static void bf16_row(const float* x, int k, uint16_t* out) {
    const int padded = padded_to_pairs(k);
    for (int i = 0; i < k; ++i) out[i] = float_to_bf16(x[i]);
    for (int i = k; i < padded; ++i) out[i] = 0;
  }
};

}  // namespace

const LinearKernels& linear_kernels_generic() {
  static constexpr LinearKernels kernels = kernels_of<Generic>();
  return kernels;
}

}  // namespace tenfold
