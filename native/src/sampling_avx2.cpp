#ifdef TENFOLD_X86
#define TENFOLD_LANES 8
#include "sampling_scan.hpp"

namespace tenfold {

const SampleKernels sample_kernels_avx2{scan, exponentials, tally, gather, find_above, mask};

}  // namespace tenfold
#endif
