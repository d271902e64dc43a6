// The row kernels, written once over Lanes; rows_{generic,avx2,avx512}.cpp compile them. Include a lanes_*.hpp first.
#pragma once
#include <cmath>

#include "rows.hpp"
#include "vector_math.hpp"

namespace tenfold {
namespace {

// out[i] = op(vectors of the inputs at i). A tail takes the same operations under a mask, so an element's result
// does not depend on where it stands.
template <class Op>
TENFOLD_INLINE void map(const float* x, const float* y, int n, float* out, Op op) {
  int i = 0;
  for (; i + 16 <= n; i += 16) Lanes::store(out + i, op(Lanes::load(x + i), Lanes::load(y + i)));
  if (i < n)
    Lanes::store_first(out + i, op(Lanes::load_first(x + i, n - i), Lanes::load_first(y + i, n - i)), n - i);
}

void rms_norm(const float* x, const float* weight, float eps, int n, float* out) {
  Lanes::F even = Lanes::set(0.0f), odd = even;
  int i = 0;
  for (; i + 32 <= n; i += 32) {
    const Lanes::F a = Lanes::load(x + i), b = Lanes::load(x + i + 16);
    even = Lanes::fma(a, a, even);
    odd = Lanes::fma(b, b, odd);
  }
  if (i + 16 <= n) {
    const Lanes::F a = Lanes::load(x + i);
    even = Lanes::fma(a, a, even);
    i += 16;
  }
  if (i < n) {
    const Lanes::F a = Lanes::load_first(x + i, n - i);
    odd = Lanes::fma(a, a, odd);
  }
  const float mean = Lanes::sum(Lanes::add(even, odd)) / static_cast<float>(n);
  const Lanes::F factor = Lanes::set(1.0f / std::sqrt(mean + eps));
  map(x, weight, n, out, [&](Lanes::F a, Lanes::F w) { return Lanes::mul(Lanes::mul(a, factor), w); });
}

// (first, second) turned by the angle: first * cos - second * sin, second * cos + first * sin.
TENFOLD_INLINE void turn(Lanes::F& first, Lanes::F& second, Lanes::F cos, Lanes::F sin) {
  const Lanes::F a = first, b = second;
  first = Lanes::sub(Lanes::mul(a, cos), Lanes::mul(b, sin));
  second = Lanes::add(Lanes::mul(b, cos), Lanes::mul(a, sin));
}

void rope_halves(float* x, int half, const float* cos, const float* sin) {
  float* y = x + half;
  int i = 0;
  for (; i + 16 <= half; i += 16) {
    Lanes::F a = Lanes::load(x + i), b = Lanes::load(y + i);
    turn(a, b, Lanes::load(cos + i), Lanes::load(sin + i));
    Lanes::store(x + i, a);
    Lanes::store(y + i, b);
  }
  if (i < half) {
    const int n = half - i;
    Lanes::F a = Lanes::load_first(x + i, n), b = Lanes::load_first(y + i, n);
    turn(a, b, Lanes::load_first(cos + i, n), Lanes::load_first(sin + i, n));
    Lanes::store_first(x + i, a, n);
    Lanes::store_first(y + i, b, n);
  }
}

// Plain loops: the compiler does the shuffling, and without contraction its vectors round as its scalars do.
void rope_pairs(float* __restrict x, int half, const float* __restrict cos, const float* __restrict sin) {
  for (int i = 0; i < half; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1];
    x[2 * i] = a * cos[i] - b * sin[i];
    x[2 * i + 1] = b * cos[i] + a * sin[i];
  }
}

void rope(float* x, int heads, int head_dim, int rotary_dim, const float* cos, const float* sin, bool interleaved) {
  for (int head = 0; head < heads; ++head, x += head_dim)
    interleaved ? rope_pairs(x, rotary_dim / 2, cos, sin) : rope_halves(x, rotary_dim / 2, cos, sin);
}

void gated(Gate kind, const float* gate, const float* up, int n, float* out) {
  if (kind == Gate::silu) {
    map(gate, up, n, out, [](Lanes::F g, Lanes::F u) { return Lanes::mul(times_logistic(g, g), u); });
    return;
  }
  // 0.5 * (1 + tanh(y)) is the logistic function of 2 y, which keeps its precision where tanh nears -1.
  map(gate, up, n, out, [](Lanes::F g, Lanes::F u) {
    const Lanes::F cube = Lanes::mul(Lanes::mul(g, g), g);
    const Lanes::F y = Lanes::fma(cube, Lanes::set(0.044715f), g);
    return Lanes::mul(times_logistic(g, Lanes::mul(y, Lanes::set(1.5957691216057308f))), u);  // 2 sqrt(2 / pi)
  });
}

void add(const float* x, int n, float* out) {
  map(x, out, n, out, [](Lanes::F a, Lanes::F b) { return Lanes::add(b, a); });
}

void scale(float* x, int n, float factor) {
  const Lanes::F f = Lanes::set(factor);
  map(x, x, n, x, [&](Lanes::F a, Lanes::F) { return Lanes::mul(a, f); });
}

void softcap(float* x, int n, float cap) {
  const Lanes::F c = Lanes::set(cap);
  map(x, x, n, x, [&](Lanes::F a, Lanes::F) { return Lanes::mul(c, vector_tanh(Lanes::div(a, c))); });
}

constexpr RowKernels kRows{rms_norm, rope, gated, add, scale, softcap};

}  // namespace
}  // namespace tenfold
