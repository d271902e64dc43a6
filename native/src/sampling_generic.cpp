#define TENFOLD_LANES 4
#include "sampling_scan.hpp"

namespace tenfold {

const SampleKernels sample_kernels_generic{scan, exponentials, tally, gather, find_above, mask};

const SampleKernels& sample_kernels(Isa isa) {
#ifdef TENFOLD_X86
  if (isa >= Isa::avx512) return sample_kernels_avx512;
  if (isa == Isa::avx2) return sample_kernels_avx2;
#endif
  return sample_kernels_generic;
}

}  // namespace tenfold
