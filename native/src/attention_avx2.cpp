#ifdef TENFOLD_X86
#include "lanes_avx2.hpp"
#include "attention_units.hpp"

namespace tenfold {
const AttentionKernels& attention_avx2() { return kKernels; }
}  // namespace tenfold
#endif
