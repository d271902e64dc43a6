// Conversions between float32 and the 16-bit formats, bit for bit the same on every path.
#pragma once
#include <cstdint>
#include <cstring>

namespace tenfold {

inline float bits_to_float(uint32_t bits) { float x; std::memcpy(&x, &bits, 4); return x; }
inline uint32_t float_to_bits(float x) { uint32_t bits; std::memcpy(&bits, &x, 4); return bits; }

inline float load_float(const uint8_t* p) { float x; std::memcpy(&x, p, 4); return x; }
inline uint16_t load16(const uint8_t* p) { uint16_t bits; std::memcpy(&bits, p, 2); return bits; }

inline float bf16_to_float(uint16_t h) { return bits_to_float(static_cast<uint32_t>(h) << 16); }

// Round to nearest even; NaN stays a quiet NaN; denormal inputs become zero, as VCVTNEPS2BF16 does.
inline uint16_t float_to_bf16(float x) {
  uint32_t bits = float_to_bits(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  if ((bits & 0x7f800000u) == 0) return static_cast<uint16_t>((bits >> 16) & 0x8000u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float f16_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  uint32_t exponent = (h >> 10) & 0x1fu, mantissa = h & 0x3ffu;
  if (exponent == 31) return bits_to_float(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    if (mantissa == 0) return bits_to_float(sign);
    const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8f;  // 2^-24
    return (sign != 0) ? -magnitude : magnitude;
  }
  return bits_to_float(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

}  // namespace tenfold
