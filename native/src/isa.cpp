#include "isa.hpp"

#include <stdexcept>

#ifdef TENFOLD_AMX
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tenfold {

#ifdef TENFOLD_AMX
namespace {

// Linux hands the tiles' 8 KiB of state only to processes that ask for it, once for all their threads.
bool ask_for_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool amx_usable() {
  static const bool usable = [] {
    constexpr unsigned kBf16 = 1u << 22, kFp16 = 1u << 23, kTile = 1u << 24, kInt8 = 1u << 25;  // EDX of leaf 7
    constexpr unsigned kWanted = kBf16 | kFp16 | kTile | kInt8;
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kWanted) == kWanted && ask_for_tiles();
  }();
  return usable;
}

}  // namespace
#endif

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    case Isa::amx: return "amx";
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
#ifdef TENFOLD_AMX
  if (found.back() == Isa::avx512 && amx_usable()) found.push_back(Isa::amx);
#endif
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
