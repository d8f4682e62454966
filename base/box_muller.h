// Two random words to a normal number, by Box and Muller ("A note on the generation of random
// normal deviates", 1958): sqrt(-2 log u) cos(2 pi v). Logarithm and cosine are series of sums,
// products, fma, one division and one root, all of which IEEE 754 rounds in one way: the same words
// give the same bits on every device and in vectors of any width, as no library's log and cos do.
// Both are within a few roundings of float64.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "brim/base/host_device.h"

namespace brim {
namespace detail {

/// n < 2^52, exactly. AVX2 has no conversion of 64-bit integers, but all that this takes.
constexpr double exact_double(uint64_t n) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(0x1p52) | n) - 0x1p52;
}

/// Horner's scheme: of the powers of z from the highest down to 1.
template <class... Coefficients>
BRIM_HOST_DEVICE [[gnu::always_inline]] inline double polynomial(double z, double highest,
                                                                 Coefficients... others) {
  double sum = highest;
  ((sum = std::fma(sum, z, others)), ...);
  return sum;
}

/// log((word + 1) / 2^32), which is finite.
BRIM_HOST_DEVICE [[gnu::always_inline]] inline double log_of_word(uint32_t word) {
  // word + 1 = m 2^e, m from sqrt(1/2) to sqrt(2).
  constexpr uint64_t kRootOfHalf = std::bit_cast<uint64_t>(0.70710678118654752), kBias = 1023;
  const auto bits = std::bit_cast<uint64_t>(exact_double(uint64_t{word} + 1));
  const uint64_t biased = ((bits - kRootOfHalf) >> 52) + kBias;
  const double m = std::bit_cast<double>(bits - ((biased - kBias) << 52));
  const double e = exact_double(biased) - kBias;
  // log m = 2 atanh s = 2 (s + s^3 / 3 + s^5 / 5 + ...); s^2 < 0.03, so what follows s^21 is below
  // a rounding.
  const double s = (m - 1) / (m + 1), z = s * s;
  const double series = polynomial(z, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                                   1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3);
  const double log_m = std::fma(series * z, 2 * s, 2 * s);
  return std::fma(e - 32, 0.69314718055994531, log_m);
}

/// cos(2 pi word / 2^32).
BRIM_HOST_DEVICE [[gnu::always_inline]] inline double cos_of_word(uint32_t word) {
  // Quarters of a turn, rounded, and the exact rest, at most an eighth of a turn to either side.
  const uint32_t quarter = (word + (1u << 29)) >> 30;
  const auto rest = static_cast<int32_t>(word - (quarter << 30));
  const double x = rest * (6.283185307179586 * 0x1p-32), z = x * x;
  // Taylor's series, to 1 / 16! and 1 / 17!.
  const double cosine =
      polynomial(z, 1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800,
                 1.0 / 40320, -1.0 / 720, 1.0 / 24, -1.0 / 2, 1.0);
  const double series = polynomial(z, 1.0 / 355687428096000, -1.0 / 1307674368000, 1.0 / 6227020800,
                                   -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6);
  const double sine = std::fma(series * z, x, x);
  // In odd quarters the sine; from the first to the second the other way round. Without branches.
  const uint64_t odd = -uint64_t{quarter & 1}, sign = uint64_t{(quarter + 1) & 2} << 62;
  const uint64_t value =
      (std::bit_cast<uint64_t>(sine) & odd) | (std::bit_cast<uint64_t>(cosine) & ~odd);
  return std::bit_cast<double>(value ^ sign);
}

}  // namespace detail

/// A standard normal number of two words of independent random bits.
BRIM_HOST_DEVICE [[gnu::always_inline]] inline float box_muller(uint32_t first, uint32_t second) {
  return static_cast<float>(std::sqrt(-2 * detail::log_of_word(first)) *
                            detail::cos_of_word(second));
}

}  // namespace brim
