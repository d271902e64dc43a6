// The machine's ceilings, measured: int8 and bf16 dot products from registers, float32 multiply-add, memory reads.
#pragma once
#include <cstdint>

#include "isa.hpp"

namespace tenfold {

// Each runs `rounds` rounds on the calling thread and returns the operations done (a multiply and an add are two).
struct CeilingKernels {
  double (*int8)(int64_t rounds);
  double (*bf16)(int64_t rounds);
  double (*fp32)(int64_t rounds);
  // Reads `bytes` bytes (a multiple of 4096) and returns a value that depends on all of them.
  uint64_t (*read)(const uint8_t* data, int64_t bytes);
};

const CeilingKernels& ceiling_kernels(Isa isa);

}  // namespace tenfold
