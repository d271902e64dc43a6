#include <cstring>

#include "ceilings.hpp"

namespace tenfold {

const CeilingKernels& ceiling_kernels_avx2();
const CeilingKernels& ceiling_kernels_avx512();
const CeilingKernels& ceiling_kernels_amx();

namespace {

constexpr int kLanes = 64;

// The results are kept from the optimizer, the loops are left to its vectorizer: what portable code can reach.
template <class T>
void keep(T& value) { asm volatile("" : : "r"(&value) : "memory"); }

double int8_rounds(int64_t rounds) {
  int32_t sums[kLanes] = {};
  int8_t a[kLanes], b[kLanes];
  for (int i = 0; i < kLanes; ++i) { a[i] = static_cast<int8_t>(i); b[i] = static_cast<int8_t>(i + 1); }
  for (int64_t r = 0; r < rounds; ++r) {
    keep(a);
    for (int i = 0; i < kLanes; ++i) sums[i] += static_cast<int16_t>(a[i]) * b[i];
    keep(sums);
  }
  return 2.0 * kLanes * static_cast<double>(rounds);
}

double fp32_rounds(int64_t rounds) {
  float sums[kLanes] = {}, a[kLanes], b[kLanes];
  for (int i = 0; i < kLanes; ++i) { a[i] = 1.f + i; b[i] = 1e-3f; }
  for (int64_t r = 0; r < rounds; ++r) {
    keep(a);
    for (int i = 0; i < kLanes; ++i) sums[i] += a[i] * b[i];
    keep(sums);
  }
  return 2.0 * kLanes * static_cast<double>(rounds);
}

uint64_t read_all(const uint8_t* data, int64_t bytes) {
  uint64_t sums[8] = {};
  for (int64_t i = 0; i < bytes; i += 64)
    for (int j = 0; j < 8; ++j) {
      uint64_t word;
      std::memcpy(&word, data + i + 8 * j, 8);
      sums[j] += word;
    }
  uint64_t total = 0;
  for (uint64_t sum : sums) total += sum;
  return total;
}

}  // namespace

const CeilingKernels& ceiling_kernels(Isa isa) {
  // Without bf16 instructions bf16 products are float32 products.
  static const CeilingKernels generic{int8_rounds, fp32_rounds, fp32_rounds, read_all};
#ifdef TENFOLD_X86
  if (isa == Isa::avx2) return ceiling_kernels_avx2();
#ifdef TENFOLD_AMX
  if (isa == Isa::amx) return ceiling_kernels_amx();
#endif
  if (isa >= Isa::avx512) return ceiling_kernels_avx512();
#endif
  return generic;
}

}  // namespace tenfold
