#ifdef TENFOLD_X86
#include "lanes_avx2.hpp"
#include "rows_kernels.hpp"

namespace tenfold {
const RowKernels& rows_avx2() { return kRows; }
}  // namespace tenfold
#endif
