#ifdef TENFOLD_X86
#include "lanes_avx512.hpp"
#include "attention_units.hpp"

namespace tenfold {
const AttentionKernels& attention_avx512() { return kKernels; }
}  // namespace tenfold
#endif
