#include "lanes_generic.hpp"
#include "attention_units.hpp"

namespace tenfold {
const AttentionKernels& attention_generic() { return kKernels; }
}  // namespace tenfold
