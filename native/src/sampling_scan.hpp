// The passes of sampling_kernels.hpp for vectors of TENFOLD_LANES floats. Included once by each variant's file, which
// sets TENFOLD_LANES; everything here is local to that file, because its machine code is.
// Sums run over 16 lanes whatever the vectors' width and nothing is fused, so all variants agree to the bit.
#include <cfloat>
#include <cstdint>

#include "sampling_kernels.hpp"

namespace tenfold {
namespace {

constexpr int kLanes = TENFOLD_LANES;
constexpr int kSumLanes = 16;
constexpr int kScanBlock = 4096;
constexpr int kTestBlock = 64;

typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));
typedef float HalfFloats __attribute__((vector_size(2 * kLanes)));
typedef double Doubles __attribute__((vector_size(4 * kLanes)));

template <class V>
inline V load(const float* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

inline void store(float* p, const Floats& v) { __builtin_memcpy(p, &v, sizeof v); }

// exp(d) for d <= 0; 0 for d < -86, which keeps all results normal numbers.
inline void exponential(const float* in, float* out, float max, float factor) {
  const Floats d = (load<Floats>(in) - max) * factor;
  const Ints keep = d >= -86.f;
  const Floats x = keep ? d : Floats{};
  const Floats shifted = x * 1.44269504f + 12582912.f;  // 1.5 * 2^23: rounds to the nearest integer
  const Floats n = shifted - 12582912.f;
  const Floats r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  Floats p = r * (1.f / 5040) + (1.f / 720);
  p = p * r + (1.f / 120);
  p = p * r + (1.f / 24);
  p = p * r + (1.f / 6);
  p = p * r + 0.5f;
  p = p * r + 1.f;
  p = p * r + 1.f;
  const Ints exponent = ((Ints)shifted - 0x4B400000 + 127) << 23;
  store(out, keep ? p * (Floats)exponent : Floats{});
}

// One step of kSumLanes elements: writes their exponentials and adds them to the lanes.
inline void exponential_step(const float* in, float* out, float max, float factor, Doubles* lanes) {
  for (int j = 0; j < kSumLanes; j += kLanes) exponential(in + j, out + j, max, factor);
  for (int j = 0; j < 2 * kSumLanes / kLanes; ++j)
    lanes[j] += __builtin_convertvector(load<HalfFloats>(out + j * (kLanes / 2)), Doubles);
}

void exponentials(const float* x, int n, float max, float factor, float* weights, double* block_sums) {
  float unused[kSumLanes], padded[kSumLanes];
  for (int start = 0; start < n; start += kSumBlock) {
    const int end = n - start < kSumBlock ? n : start + kSumBlock;
    Doubles lanes[2 * kSumLanes / kLanes] = {};
    int i = start;
    for (; i + kSumLanes <= end; i += kSumLanes)
      exponential_step(x + i, weights ? weights + i : unused, max, factor, lanes);
    if (i < end) {
      for (int j = 0; j < kSumLanes; ++j) padded[j] = i + j < end ? x[i + j] : -__builtin_inff();
      exponential_step(padded, unused, max, factor, lanes);
      for (int j = 0; weights && i + j < end; ++j) weights[i + j] = unused[j];
    }
    double sums[kSumLanes], sum = 0;
    __builtin_memcpy(sums, lanes, sizeof sums);
    for (double lane : sums) sum += lane;
    block_sums[start / kSumBlock] = sum;
  }
}

Tally tally(const float* keys, const float* weights, int n, float bound) {
  constexpr int kParts = kSumLanes / kLanes;
  Doubles lanes[2 * kParts] = {};
  Ints counts{};
  int i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    float taken[kSumLanes];
    for (int j = 0; j < kSumLanes; j += kLanes) {
      const Ints in = load<Floats>(keys + i + j) >= bound;
      store(taken + j, in ? load<Floats>(weights + i + j) : Floats{});
      counts -= in;
    }
    for (int j = 0; j < 2 * kParts; ++j)
      lanes[j] += __builtin_convertvector(load<HalfFloats>(taken + j * (kLanes / 2)), Doubles);
  }
  double sums[kSumLanes];
  __builtin_memcpy(sums, lanes, sizeof sums);
  Tally found{0, 0};
  for (int j = 0; j < kLanes; ++j) found.count += counts[j];
  for (int j = 0; i < n; ++i, ++j) {
    if (!(keys[i] >= bound)) continue;
    sums[j] += weights[i];
    found.count++;
  }
  for (double lane : sums) found.mass += lane;
  return found;
}

RowExtent scan(const float* x, int n) {
  RowExtent found{-__builtin_inff(), -1, false};
  for (int start = 0; start < n; start += kScanBlock) {
    const int end = n - start < kScanBlock ? n : start + kScanBlock;
    Floats best[4];
    Ints normal = Ints{} - 1;
    for (Floats& b : best) b = Floats{} - __builtin_inff();
    int i = start;
    for (; i + 4 * kLanes <= end; i += 4 * kLanes)
      for (int j = 0; j < 4; ++j) {
        const Floats v = load<Floats>(x + i + j * kLanes);
        best[j] = v > best[j] ? v : best[j];
        normal &= v <= FLT_MAX;
      }
    float max = -__builtin_inff();
    for (const Floats& b : best)
      for (int j = 0; j < kLanes; ++j) max = b[j] > max ? b[j] : max;
    for (int j = 0; j < kLanes; ++j) found.abnormal |= normal[j] == 0;
    for (; i < end; ++i) {
      max = x[i] > max ? x[i] : max;
      found.abnormal |= !(x[i] <= FLT_MAX);
    }
    if (max > found.max) {
      found.max = max;
      found.index = start;
    }
  }
  if (found.index >= 0)
    while (x[found.index] != found.max) ++found.index;
  return found;
}

inline int count_at_least(const float* x, float least) {
  Ints count{};
  for (int j = 0; j < kTestBlock; j += kLanes) count -= load<Floats>(x + j) >= least;
  int total = 0;
  for (int j = 0; j < kLanes; ++j) total += count[j];
  return total;
}

int gather(const float* x, int n, float least, int32_t* ids, float* values) {
  int found = 0;
  for (int start = 0; start < n; start += kTestBlock) {
    const int end = n - start < kTestBlock ? n : start + kTestBlock;
    if (end - start == kTestBlock && count_at_least(x + start, least) == 0) continue;
    for (int i = start; i < end; ++i) {  // no branch: in a flat row every other value is kept. found <= i < n.
      ids[found] = i;
      values[found] = x[i];
      found += x[i] >= least;
    }
  }
  return found;
}

int find_above(const float* x, int from, int n, float bound) {
  int i = from;
  while (i + kTestBlock <= n) {
    Ints any{};
    for (int j = 0; j < kTestBlock; j += kLanes) any |= load<Floats>(x + i + j) > bound;
    int total = 0;
    for (int j = 0; j < kLanes; ++j) total |= any[j];
    if (total) break;
    i += kTestBlock;
  }
  while (i < n && !(x[i] > bound)) ++i;
  return i;
}

void mask(float* x, int n, const uint32_t* words) {
  constexpr int kWord = 32;
  Ints bits[kWord / kLanes];
  for (int j = 0; j < kWord; ++j) bits[j / kLanes][j % kLanes] = int32_t(1u << j);
  const Floats nothing = Floats{} - __builtin_inff();
  int i = 0;
  for (; i + kWord <= n; i += kWord) {
    const uint32_t word = words[i / kWord];
    if (word == UINT32_MAX) continue;
    for (int j = 0; j < kWord / kLanes; ++j) {
      const Ints keep = ((Ints{} + int32_t(word)) & bits[j]) != 0;
      float* at = x + i + j * kLanes;
      store(at, keep ? load<Floats>(at) : nothing);
    }
  }
  for (; i < n; ++i)
    if (!(words[i / kWord] >> (i % kWord) & 1)) x[i] = -__builtin_inff();
}

}  // namespace
}  // namespace tenfold
