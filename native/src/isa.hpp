// Instruction sets: which kernels this CPU can run, and which were asked for.
#pragma once
#include <string>
#include <vector>

namespace tenfold {

// avx512 means F, BW, DQ, VL, VNNI and BF16; amx means that, AVX-512 FP16, and tiles of int8
// and BF16 that the system lets us use.
enum class Isa { generic = 0, avx2 = 1, avx512 = 2, amx = 3 };

const char* isa_name(Isa isa);
Isa parse_isa(const std::string& name);      // throws std::invalid_argument naming the choices
std::vector<Isa> supported_isas();           // on this CPU, slowest first
Isa best_isa();

}  // namespace tenfold
