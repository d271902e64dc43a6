// pack_weight: from a checkpoint's blocks to panels. See packed_weight.hpp for the layout.
#include <algorithm>
#include <atomic>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "bf16.hpp"
#include "linear.hpp"
#include "pack_blocks.hpp"
#include "pack_memory.hpp"

namespace tenfold {
namespace {

constexpr size_t kFound = SIZE_MAX;  // "no bad scale found yet"

// The largest scale and minimum seen: float16 bits without the sign, so larger bits are larger values.
struct Largest {
  uint16_t scale = 0, minimum = 0;

  void see(const BlockParts& parts) {
    scale = std::max<uint16_t>(scale, parts.scale & 0x7fff);
    minimum = std::max<uint16_t>(minimum, parts.minimum & 0x7fff);
  }
};

// What all threads find in a weight: the lowest offset of a bad scale, and the largest of all.
struct Findings {
  std::atomic<size_t> bad{kFound};
  std::atomic<uint16_t> scale{0}, minimum{0};

  void note_bad(size_t offset) {
    size_t seen = bad.load();
    while (offset < seen && !bad.compare_exchange_weak(seen, offset)) {}
  }
  void note(const Largest& found) {
    raise(scale, found.scale);
    raise(minimum, found.minimum);
  }

 private:
  static void raise(std::atomic<uint16_t>& most, uint16_t bits) {
    uint16_t seen = most.load();
    while (bits > seen && !most.compare_exchange_weak(seen, bits)) {}
  }
};

// What no value of a weight passes.
float bound_of(const Layout& layout, const Findings& found) {
  const float most_scale = !layout.is_super() ? 1.f : layout.nibble_scales() ? 15.f : layout.min ? 63.f : 128.f;
  const float most_minimum = !layout.is_super() ? 1.f : layout.nibble_scales() ? 15.f : 63.f;
  const float codes = static_cast<float>(1 << layout.bits);
  const float scaled = f16_to_float(found.scale.load()) * most_scale * codes;
  return layout.min ? scaled + f16_to_float(found.minimum.load()) * most_minimum : scaled;
}

struct Source {
  const uint8_t* data;
  const Format* format;
  int n, k;
  size_t row_bytes;
};

// Codes of a group as words [quad][column] (four codes a word) into planes.
void write_group(int bits, const uint32_t quads[8][16], uint8_t* out) {
  uint32_t* words = reinterpret_cast<uint32_t*>(out);
  if (bits == 8) {
    std::memcpy(out, quads, 512);
    return;
  }
  if (bits >= 4) {
    for (int v = 0; v < 4; ++v)
      for (int c = 0; c < 16; ++c)
        words[v * 16 + c] = (quads[2 * v][c] & 0x0f0f0f0fu) | ((quads[2 * v + 1][c] & 0x0f0f0f0fu) << 4);
    words += 64;
  }
  if (bits == 2 || bits == 3 || bits == 6) {
    const int from = bits == 6 ? 4 : 0;
    for (int v = 0; v < 2; ++v)
      for (int c = 0; c < 16; ++c) {
        uint32_t word = 0;
        for (int j = 0; j < 4; ++j) word |= ((quads[4 * v + j][c] >> from) & 0x03030303u) << (2 * j);
        words[v * 16 + c] = word;
      }
    words += 32;
  }
  if (bits == 3 || bits == 5) {
    const int from = bits - 1;
    for (int c = 0; c < 16; ++c) {
      uint32_t word = 0;
      for (int j = 0; j < 8; ++j) word |= ((quads[j][c] >> from) & 0x01010101u) << j;
      words[c] = word;
    }
  }
}

// Codes [at, at + 32) of all columns.
void write_codes(int bits, const BlockParts parts[kPanel], int at, uint8_t* out) {
  uint32_t quads[8][16];
  for (int c = 0; c < kPanel; ++c)
    for (int j = 0; j < 8; ++j) std::memcpy(&quads[j][c], parts[c].codes + at + 4 * j, 4);
  write_group(bits, quads, out);
}

void write_head(const Layout& layout, const BlockParts* parts, uint8_t* out) {
  uint16_t* halves = reinterpret_cast<uint16_t*>(out);
  for (int c = 0; c < kPanel; ++c) halves[c] = parts[c].scale;
  if (layout.min)
    for (int c = 0; c < kPanel; ++c) halves[kPanel + c] = parts[c].minimum;
  if (!layout.is_super()) return;
  uint8_t* subs = out + layout.head_bytes() - 256;
  if (layout.sub == 32) {
    for (int g = 0; g < 8; ++g)
      for (int c = 0; c < kPanel; ++c) {
        subs[g * 32 + c] = parts[c].sub_scales[g];
        subs[g * 32 + 16 + c] = parts[c].sub_minimums[g];
      }
  } else {
    for (int s = 0; s < 16; ++s)
      for (int c = 0; c < kPanel; ++c) subs[s * 16 + c] = parts[c].sub_scales[s];
  }
}

void pack_integer_panel(const Source& from, const PackedWeight& to, int panel, uint8_t* out,
                        Findings& findings) {
  const Layout& layout = to.layout;
  Largest largest;
  BlockParts parts[kPanel];
  std::memset(parts, 0, sizeof parts);
  for (auto& part : parts) std::memset(part.codes, layout.offset, sizeof part.codes);  // columns past n are zero
  const int columns = from.n - panel * kPanel < kPanel ? from.n - panel * kPanel : kPanel;
  for (int block = 0; block < from.k / layout.block; ++block, out += layout.block_bytes()) {
    for (int c = 0; c < columns; ++c) {
      const size_t offset = static_cast<size_t>(panel * kPanel + c) * from.row_bytes +
                            static_cast<size_t>(block) * from.format->source_block_bytes;
      const int wrong = read_block(from.format->id, from.data + offset, parts[c]);
      if (wrong >= 0) findings.note_bad(offset + wrong);
      largest.see(parts[c]);
    }
    write_head(layout, parts, out);
    uint8_t* group_out = out + layout.head_bytes();
    for (int g = 0; g < layout.block / kGroup; ++g, group_out += layout.group_bytes())
      write_codes(layout.bits, parts, g * kGroup, group_out);
  }
  findings.note(largest);
}

// Eight blocks of one column at most, as one fine block. Source blocks past the column's end have scales of 0.
struct FineColumn {
  float unit;
  int16_t scales[kBlockGroups];
  uint16_t minimums[kBlockGroups];  // bf16 bits
};

// The unit is the smallest with which no sum of a block passes 2^31, whatever the activations, and no product of a
// scale and a level 2^15: |dot| <= 127 * (sum of |code - 8|), rounding adds half a unit to a scale at most.
FineColumn fine_column(const float* scales, const float* minimums, const int* code_sums, int groups) {
  constexpr float kMostSum = 2147483647.f / (127.f * kLevels), kMostScale = 1056.f;
  float weighted = 0.f, largest = 0.f, codes = 0.f;
  for (int g = 0; g < groups; ++g) {
    weighted += std::fabs(scales[g]) * static_cast<float>(code_sums[g]);
    largest = std::max(largest, std::fabs(scales[g]));
    codes += static_cast<float>(code_sums[g]);
  }
  FineColumn out{};
  out.unit = std::max(weighted / (kMostSum - codes), largest / kMostScale);
  for (int g = 0; g < groups; ++g) {
    if (out.unit > 0.f) out.scales[g] = static_cast<int16_t>(std::lrint(scales[g] / out.unit));
    const float middle = minimums[g] + 8.f * scales[g];  // the value of code 8
    out.minimums[g] = static_cast<uint16_t>(float_to_bits(cut_to_bf16(middle)) >> 16);
  }
  return out;
}

void write_fine_head(const FineColumn columns[kPanel], int pairs, bool min, uint8_t* out) {
  for (int c = 0; c < kPanel; ++c) {
    std::memcpy(out + 4 * c, &columns[c].unit, 4);
    for (int g = 0; g < 2 * pairs; ++g) {
      uint8_t* to = out + 64 + g / 2 * 64 + c * 4 + (g % 2 == 0 ? 2 : 0);
      std::memcpy(to, &columns[c].scales[g], 2);
      if (min) std::memcpy(to + pairs * 64, &columns[c].minimums[g], 2);
    }
  }
}

void pack_fine_panel(const Source& from, const PackedWeight& to, int panel, uint8_t* out, Findings& findings) {
  const Layout& layout = to.layout;
  Largest largest;
  const int columns = from.n - panel * kPanel < kPanel ? from.n - panel * kPanel : kPanel;
  for (int block = 0; block < blocks_of(from.k); ++block) {
    const int pairs = pairs_in_block(from.k, block), first = block * kBlockGroups;
    const int groups = std::min(2 * pairs, from.k / kGroup - first);
    BlockParts parts[kBlockGroups][kPanel];
    std::memset(parts, 0, sizeof parts);
    FineColumn heads[kPanel] = {};
    for (auto& group : parts)
      for (auto& part : group) std::memset(part.codes, layout.offset, kGroup);
    for (int c = 0; c < columns; ++c) {
      float scales[kBlockGroups] = {}, minimums[kBlockGroups] = {};
      int code_sums[kBlockGroups] = {};
      for (int g = 0; g < groups; ++g) {
        const size_t offset = static_cast<size_t>(panel * kPanel + c) * from.row_bytes +
                              static_cast<size_t>(first + g) * from.format->source_block_bytes;
        BlockParts& part = parts[g][c];
        const int wrong = read_block(from.format->id, from.data + offset, part);
        if (wrong >= 0) findings.note_bad(offset + wrong);
        largest.see(part);
        scales[g] = f16_to_float(part.scale);
        minimums[g] = f16_to_float(part.minimum);
        for (int i = 0; i < kGroup; ++i) code_sums[g] += std::abs(part.codes[i] - layout.offset);
      }
      heads[c] = fine_column(scales, minimums, code_sums, groups);
    }
    write_fine_head(heads, pairs, layout.min, out);
    uint8_t* group_out = out + layout.head_bytes(pairs);
    for (int g = 0; g < 2 * pairs; ++g, group_out += layout.group_bytes())
      write_codes(layout.bits, parts[g], 0, group_out);
    out += layout.block_bytes(pairs);
  }
  findings.note(largest);
}

// f16 bits as bf16 bits without branches, so that loops become vectors; infinities and NaN come out finite.
uint16_t f16_to_bf16(uint16_t half) {
  const float scaled = bits_to_float(static_cast<uint32_t>(half & 0x7fffu) << 13) * 0x1p112f;  // exact
  const uint32_t bits = float_to_bits(scaled);
  return static_cast<uint16_t>(((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16) | (half & 0x8000u));
}

// `count` elements as bf16. False if one is not finite, or rounds to infinity.
bool read_floats(int ggml_type, const uint8_t* p, int count, uint16_t* out) {
  uint32_t bad = 0;
  if (ggml_type == 1) {
    for (int i = 0; i < count; ++i) {
      const uint16_t half = load16(p + 2 * i);
      bad |= (half & 0x7c00u) == 0x7c00u;
      out[i] = f16_to_bf16(half);
    }
    return bad == 0;
  }
  if (ggml_type == 0) {
    for (int i = 0; i < count; ++i) {
      float x;
      std::memcpy(&x, p + 4 * i, 4);
      out[i] = float_to_bf16(x);
    }
  } else {
    std::memcpy(out, p, static_cast<size_t>(count) * 2);
  }
  for (int i = 0; i < count; ++i) bad |= (out[i] & 0x7f80u) == 0x7f80u;
  return bad == 0;
}

void pack_float_panel(const Source& from, int panel, uint8_t* out, Findings& findings) {
  constexpr int kStrip = 64;  // columns of k taken at a time, so that reads and writes both stay together
  const int columns = from.n - panel * kPanel < kPanel ? from.n - panel * kPanel : kPanel;
  const int size = from.format->source_block_bytes;
  alignas(64) uint16_t strip[kPanel][kStrip] = {};
  for (int at = 0; at < from.k; at += kStrip) {
    const int count = from.k - at < kStrip ? from.k - at : kStrip;
    if (count < kStrip) std::memset(strip, 0, sizeof strip);
    for (int c = 0; c < columns; ++c) {
      const size_t offset = static_cast<size_t>(panel * kPanel + c) * from.row_bytes + static_cast<size_t>(at) * size;
      if (read_floats(from.format->ggml_type, from.data + offset, count, strip[c])) continue;
      uint16_t ignored;
      for (int i = 0; i < count; ++i)
        if (!read_floats(from.format->ggml_type, from.data + offset + static_cast<size_t>(i) * size, 1, &ignored))
          findings.note_bad(offset + static_cast<size_t>(i) * size);
    }
    for (int pair = 0; pair < (count + 1) / 2; ++pair, out += 64)
      for (int c = 0; c < kPanel; ++c) std::memcpy(out + 4 * c, &strip[c][2 * pair], 4);
  }
}

Source check_source(int ggml_type, const uint8_t* data, size_t bytes, int n, int k) {
  const Format* format = find_format(ggml_type);
  if (format == nullptr)
    throw std::invalid_argument("Storage type " + std::to_string(ggml_type) +
                                " has no kernel; use F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 or Q2_K to Q6_K.");
  if (n <= 0 || k <= 0)
    throw std::invalid_argument("A weight of " + std::to_string(n) + " rows and " + std::to_string(k) +
                                " columns is empty; both must be positive.");
  if (n > INT_MAX - kPanel || k > INT_MAX - kGroup)
    throw std::invalid_argument("A weight of " + std::to_string(n) + " rows and " + std::to_string(k) +
                                " columns is too large; each must fit 31 bits.");
  if (k % format->source_block != 0)
    throw std::invalid_argument("A weight of type " + std::string(format->name) + " has blocks of " +
                                std::to_string(format->source_block) + " columns, which do not divide its " +
                                std::to_string(k) + " columns.");
  const size_t row_bytes = static_cast<size_t>(k / format->source_block) * format->source_block_bytes;
  if (bytes / row_bytes != static_cast<size_t>(n) || bytes % row_bytes != 0)
    throw std::invalid_argument("A weight of type " + std::string(format->name) + " with " + std::to_string(n) +
                                " rows of " + std::to_string(k) + " columns takes rows of " +
                                std::to_string(row_bytes) + " bytes; " + std::to_string(bytes) +
                                " bytes in all were given.");
  return {data, format, n, k, row_bytes};
}

}  // namespace

std::shared_ptr<const PackedWeight> pack_weight(int ggml_type, const uint8_t* data, size_t bytes, int n, int k,
                                                ThreadPool& pool) {
  const Source from = check_source(ggml_type, data, bytes, n, k);
  auto to = std::make_shared<PackedWeight>();
  to->format = from.format;
  to->layout = layout_of(from.format->id);
  to->n = n;
  to->k = k;
  to->panels = (n + kPanel - 1) / kPanel;
  const int blocks = (k + to->layout.block - 1) / to->layout.block;
  for (int block = 0; block < blocks; ++block)
    to->panel_bytes += to->layout.block_bytes(to->layout.is_fine() ? pairs_in_block(k, block) : 4);
  to->bytes = to->panel_bytes * to->panels;
  to->data = allocate_packed(to->bytes);
  Findings findings;
  pool.run(to->panels, [&](int panel, int) {
    uint8_t* out = to->data.get() + static_cast<size_t>(panel) * to->panel_bytes;
    if (to->layout.bits == 16) pack_float_panel(from, panel, out, findings);
    else if (to->layout.is_fine()) pack_fine_panel(from, *to, panel, out, findings);
    else pack_integer_panel(from, *to, panel, out, findings);
  });
  to->bound = bound_of(to->layout, findings);
  if (findings.bad.load() != kFound)
    throw std::invalid_argument("A weight of type " + std::string(from.format->name) + " has a " +
                                (to->layout.bits == 16 ? "value" : "scale") +
                                " that is NaN or infinite at byte offset " + std::to_string(findings.bad.load()) +
                                " of the tensor; the file is damaged.");
  return to;
}

}  // namespace tenfold
