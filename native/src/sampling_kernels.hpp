// Passes over a whole vocabulary. Every variant gives the same bits.
#pragma once
#include <cstdint>

#include "isa.hpp"

namespace tenfold {

struct RowExtent {
  float max;       // -inf if there is no number above it; NaN is skipped
  int index;       // the first place of max; -1 if max is -inf
  bool abnormal;   // some value is NaN or +inf
};

struct Tally {
  int count;
  double mass;
};

constexpr int kSumBlock = 512;  // elements behind each entry of block_sums

struct SampleKernels {
  RowExtent (*scan)(const float* x, int n);
  // weights[i] = exp((x[i] - max) * factor), exactly 0 where the exponent is below -86. x has no NaN and none above
  // max. weights may be x, or null for the sums alone. block_sums gets ceil(n / kSumBlock) sums.
  void (*exponentials)(const float* x, int n, float max, float factor, float* weights, double* block_sums);
  // How many keys are >= bound, and the sum of their weights.
  Tally (*tally)(const float* keys, const float* weights, int n, float bound);
  // Copies values >= least, with their ids, in order; returns how many. ids and values have room for n.
  int (*gather)(const float* x, int n, float least, int32_t* ids, float* values);
  // The first i >= from with x[i] > bound; n if there is none.
  int (*find_above)(const float* x, int from, int n, float bound);
  // Sets x[i] to -inf where bit i % 32 of words[i / 32] is 0.
  void (*mask)(float* x, int n, const uint32_t* words);
};

const SampleKernels& sample_kernels(Isa isa);

extern const SampleKernels sample_kernels_generic;
#ifdef TENFOLD_X86
extern const SampleKernels sample_kernels_avx2;
extern const SampleKernels sample_kernels_avx512;
#endif

}  // namespace tenfold
