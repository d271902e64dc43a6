#include "isa.hpp"

#include <stdexcept>

namespace tenfold {

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    default: return "generic";
  }
}

std::vector<Isa> supported_isas() {
  std::vector<Isa> found{Isa::generic};
#ifdef TENFOLD_X86
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2) found.push_back(Isa::avx2);
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16"))
    found.push_back(Isa::avx512);
#endif
  return found;
}

Isa best_isa() { return supported_isas().back(); }

Isa parse_isa(const std::string& name) {
  std::string choices;
  for (Isa isa : supported_isas()) {
    if (name == isa_name(isa)) return isa;
    choices += std::string(choices.empty() ? "" : ", ") + isa_name(isa);
  }
  throw std::invalid_argument("instruction set '" + name + "' is not available here; this CPU can run: " + choices +
                              ".");
}

}  // namespace tenfold
