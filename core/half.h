// float16 and bfloat16 as storage types: 16 bits that convert to and from float, rounding to
// nearest even. Arithmetic happens in float; there is none here. From double or whole numbers use
// `convert` (core/dtype.h), which rounds once; by way of float it would be twice.
#pragma once

#include <bit>
#include <cstdint>

namespace brim {

/// IEEE 754 binary16: 5 exponent bits, 10 of mantissa; largest finite value 65504.
struct Float16 {
  uint16_t bits = 0;

  Float16() = default;
  explicit constexpr Float16(float value) : bits(encode(value)) {}
  explicit constexpr operator float() const { return decode(bits); }

 private:
  static constexpr uint16_t encode(float value) {
    uint32_t word = std::bit_cast<uint32_t>(value);
    auto sign = static_cast<uint16_t>((word >> 16) & 0x8000u);
    uint32_t magnitude = word & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u);   // NaN
    if (magnitude >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);  // beyond: infinity
    if (magnitude < 0x38800000u) {  // subnormal: let float addition round at the right bit
      float rounded = std::bit_cast<float>(magnitude) + 0.5f;
      return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3F000000u));
    }
    uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u) - 0x38000000u;
    return static_cast<uint16_t>(sign | (rounded >> 13));
  }
  static constexpr float decode(uint16_t half) {
    uint32_t sign = uint32_t{half & 0x8000u} << 16, magnitude = half & 0x7FFFu;
    if (magnitude >= 0x7C00u)
      return std::bit_cast<float>(sign | 0x7F800000u | ((magnitude & 0x3FFu) << 13));
    if (magnitude < 0x400u) {
      float value = static_cast<float>(magnitude) * 0x1.0p-24f;
      return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
    }
    return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
  }
};

/// The upper half of a float: 8 exponent bits, 7 of mantissa.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  explicit constexpr BFloat16(float value) : bits(encode(value)) {}
  explicit constexpr operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }

 private:
  static constexpr uint16_t encode(float value) {
    uint32_t word = std::bit_cast<uint32_t>(value);
    if ((word & 0x7FFFFFFFu) > 0x7F800000u)
      return static_cast<uint16_t>((word >> 16) | 0x40u);  // NaN stays NaN
    return static_cast<uint16_t>((word + 0x7FFFu + ((word >> 16) & 1u)) >> 16);
  }
};

}  // namespace brim
