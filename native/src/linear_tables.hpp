// What the variants of the linear kernels share with linear.cpp.
#pragma once
#include <cstddef>
#include <cstdint>

#include "linear.hpp"

namespace tenfold {

const LinearKernels& linear_kernels_generic();
const LinearKernels& linear_kernels_avx2();
const LinearKernels& linear_kernels_avx512();
const LinearKernels& linear_kernels_amx();

// This thread's scratch of at least so many bytes, 64-byte aligned, valid until the next call on the thread. For amx;
// in linear.cpp because the linker may keep a variant's copy of AlignedArray for all.
uint8_t* linear_scratch(size_t bytes);

}  // namespace tenfold
