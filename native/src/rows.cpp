#include "rows.hpp"

namespace tenfold {

const RowKernels& rows_generic();
#ifdef TENFOLD_X86
const RowKernels& rows_avx2();
const RowKernels& rows_avx512();
#endif

const RowKernels& row_kernels(Isa isa) {
#ifdef TENFOLD_X86
  if (isa >= Isa::avx512) return rows_avx512();
  if (isa == Isa::avx2) return rows_avx2();
#endif
  return rows_generic();
}

}  // namespace tenfold
