#include "lanes_generic.hpp"
#include "rows_kernels.hpp"

namespace tenfold {
const RowKernels& rows_generic() { return kRows; }
}  // namespace tenfold
