// Ops on one row of floats: norms, rotary embedding, gated activations.
#pragma once
#include <cstdint>

#include "isa.hpp"

namespace tenfold {

enum class Gate { silu = 0, gelu_tanh = 1 };

struct RowKernels {
  // out = x / sqrt(mean(x^2) + eps) * weight; out may be x.
  void (*rms_norm)(const float* x, const float* weight, float eps, int n, float* out);
  // Rotates `heads` heads of head_dim in place. cos and sin have rotary_dim / 2 entries for this row's position;
  // elements from rotary_dim on stay. interleaved: pairs (2i, 2i + 1), else (i, i + rotary_dim / 2).
  void (*rope)(float* x, int heads, int head_dim, int rotary_dim, const float* cos, const float* sin,
               bool interleaved);
  void (*gated)(Gate kind, const float* gate, const float* up, int n, float* out);
  void (*add)(const float* x, int n, float* out);          // out += x
  void (*scale)(float* x, int n, float factor);            // x *= factor
  void (*softcap)(float* x, int n, float cap);             // x = cap * tanh(x / cap)
};

const RowKernels& row_kernels(Isa isa);

}  // namespace tenfold
