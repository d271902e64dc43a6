#ifdef TENFOLD_X86
#include "lanes_avx512.hpp"
#include "rows_kernels.hpp"

namespace tenfold {
const RowKernels& rows_avx512() { return kRows; }
}  // namespace tenfold
#endif
