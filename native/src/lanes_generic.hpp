// Sixteen floats on any CPU: four 4-float vectors, which compilers map to SSE2 or NEON.
//
// The three lanes_*.hpp headers offer the same operations. Everything is in an anonymous namespace: each source file
// is compiled for its own instruction set, and no such code may be shared between them by the linker.
#pragma once
#include <cstdint>
#include <cstring>

#define TENFOLD_INLINE [[gnu::always_inline]] static inline

namespace tenfold {
namespace {

struct Lanes {
  typedef float Quad __attribute__((vector_size(16)));
  typedef int32_t Bits __attribute__((vector_size(16)));
  typedef uint32_t Words __attribute__((vector_size(16)));

  struct F { Quad q[4]; };
  struct Weight { float even, odd; };   // what one pair of bfloat16 is multiplied with
  struct Pairs { F even, odd; };        // 16 pairs, widened
  static constexpr bool kRoundsWeights = false;  // to bfloat16
  static constexpr int kScoreRows = 2;    // register tile of q.k: query rows
  static constexpr int kValueRows = 2;    // register tile of p.v: query rows
  static constexpr int kValueVectors = 1; // register tile of p.v: vectors of dims
  static constexpr int score_tiles(int) { return 1; }

  template <class Op> TENFOLD_INLINE F each(Op op) { return {{op(0), op(1), op(2), op(3)}}; }
  TENFOLD_INLINE Quad quad(float x) { return Quad{x, x, x, x}; }
  TENFOLD_INLINE Quad choose(Bits mask, Quad a, Quad b) { return (Quad)((mask & (Bits)a) | (~mask & (Bits)b)); }

  TENFOLD_INLINE F set(float x) { return each([=](int) { return quad(x); }); }
  TENFOLD_INLINE F load(const float* p) { F r; std::memcpy(&r, p, sizeof r); return r; }
  TENFOLD_INLINE void store(float* p, F x) { std::memcpy(p, &x, sizeof x); }
  TENFOLD_INLINE F load_first(const float* p, int n) {
    float all[16] = {};
    std::memcpy(all, p, static_cast<size_t>(n) * sizeof(float));
    return load(all);
  }
  TENFOLD_INLINE void store_first(float* p, F x, int n) {
    float all[16];
    store(all, x);
    std::memcpy(p, all, static_cast<size_t>(n) * sizeof(float));
  }
  TENFOLD_INLINE F add(F a, F b) { return each([&](int i) { return a.q[i] + b.q[i]; }); }
  TENFOLD_INLINE F sub(F a, F b) { return each([&](int i) { return a.q[i] - b.q[i]; }); }
  TENFOLD_INLINE F mul(F a, F b) { return each([&](int i) { return a.q[i] * b.q[i]; }); }
  TENFOLD_INLINE F div(F a, F b) { return each([&](int i) { return a.q[i] / b.q[i]; }); }
  TENFOLD_INLINE F fma(F a, F b, F c) { return each([&](int i) { return a.q[i] * b.q[i] + c.q[i]; }); }
  TENFOLD_INLINE F max(F a, F b) { return each([&](int i) { return choose(a.q[i] > b.q[i], a.q[i], b.q[i]); }); }
  TENFOLD_INLINE F abs(F a) { return each([&](int i) { return (Quad)((Bits)a.q[i] & 0x7fffffff); }); }
  TENFOLD_INLINE F copy_sign(F size, F sign) {
    return each([&](int i) {
      return (Quad)(((Bits)size.q[i] & 0x7fffffff) | ((Bits)sign.q[i] & static_cast<int32_t>(0x80000000)));
    });
  }
  TENFOLD_INLINE F less(F a, F b, F yes, F no) {  // a < b ? yes : no
    return each([&](int i) { return choose(a.q[i] < b.q[i], yes.q[i], no.q[i]); });
  }
  // Keeps lanes [begin, end), others become `other`.
  TENFOLD_INLINE F keep(F x, int begin, int end, float other) {
    return each([&](int i) {
      const Bits lane = Bits{0, 1, 2, 3} + 4 * i;
      return choose((lane >= begin) & (lane < end), x.q[i], quad(other));
    });
  }
  TENFOLD_INLINE F round(F x) {  // to nearest even; |x| < 2^22
    const Quad magic = quad(12582912.0f);
    return each([&](int i) { return (x.q[i] + magic) - magic; });
  }
  // x * 2^n for whole n, to zero and infinity at the ends. Two steps, as 2^n alone may not be a float.
  TENFOLD_INLINE F scale2(F x, F n) {
    return each([&](int i) {
      Quad m = choose(n.q[i] < quad(-250.0f), quad(-250.0f), n.q[i]);
      m = choose(m > quad(250.0f), quad(250.0f), m);
      const Bits whole = __builtin_convertvector(m, Bits), half = whole >> 1;
      return x.q[i] * (Quad)((half + 127) << 23) * (Quad)((whole - half + 127) << 23);
    });
  }
  TENFOLD_INLINE float sum(F x) {
    const Quad q = (x.q[0] + x.q[2]) + (x.q[1] + x.q[3]);
    return (q[0] + q[2]) + (q[1] + q[3]);
  }
  TENFOLD_INLINE float max_of(F x) {
    const Quad a = choose(x.q[0] > x.q[1], x.q[0], x.q[1]), b = choose(x.q[2] > x.q[3], x.q[2], x.q[3]);
    const Quad q = choose(a > b, a, b);
    const float c = q[0] > q[1] ? q[0] : q[1], d = q[2] > q[3] ? q[2] : q[3];
    return c > d ? c : d;
  }

  TENFOLD_INLINE Pairs load_pairs(const uint16_t* p) {
    Words w[4];
    std::memcpy(&w, p, sizeof w);
    return {each([&](int i) { return (Quad)(w[i] << 16); }), each([&](int i) { return (Quad)(w[i] & 0xffff0000u); })};
  }
  TENFOLD_INLINE Pairs only_even(Pairs p) { return {p.even, set(0.0f)}; }
  TENFOLD_INLINE Pairs only_odd(Pairs p) { return {set(0.0f), p.odd}; }
  template <int kRows> TENFOLD_INLINE F dot(F sum, Pairs p, const Weight* w) {
    return fma(p.odd, set(w->odd), fma(p.even, set(w->even), sum));
  }
  // Writes 8 weights made of 16 floats in order.
  TENFOLD_INLINE void weights(F x, Weight* w) { std::memcpy(w, &x, sizeof x); }
  // Adds the 32 values of 16 weights to `total`, in any lanes.
  TENFOLD_INLINE F add_weights(F total, const Weight* w) {
    const float* held = reinterpret_cast<const float*>(w);
    return add(total, add(load(held), load(held + 16)));
  }
  // bfloat16 by round to nearest even; NaN stays a quiet NaN, denormals become zero.
  TENFOLD_INLINE void to_bf16(F x, uint16_t* out) {
    uint32_t bits[16];
    std::memcpy(bits, &x, sizeof bits);
    for (int i = 0; i < 16; ++i) {
      const uint32_t b = bits[i], rounded = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
      const uint32_t plain = (b & 0x7f800000u) == 0 ? (b >> 16) & 0x8000u : rounded;
      out[i] = static_cast<uint16_t>((b & 0x7fffffffu) > 0x7f800000u ? (b >> 16) | 0x40u : plain);
    }
  }
};

}  // namespace
}  // namespace tenfold
