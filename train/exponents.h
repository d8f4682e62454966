// How large the numbers in tensors are: histograms of their binary exponents, and what a narrower
// floating-point type would make of them. For looking at a training's numbers: train/numerics.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "brim/core/tensor.h"

namespace brim {

/// Exponents e of the numbers that a type has: 2^e <= |x| < 2^(e+1).
struct FloatRange {
  int smallest;         ///< of its smallest subnormal number: below half of that it has only 0
  int smallest_normal;  ///< below it numbers lose a bit with each power of two
  int largest;
};
/// Of float16, bfloat16 or float32. Throws `DtypeError` for another.
FloatRange range_of(Dtype dtype);

/// What becomes of numbers other than 0 in a type, as shares of them.
struct RangeShares {
  double lost = 0;       ///< below half of its smallest number: they become 0
  double subnormal = 0;  ///< below its smallest normal one
  double near = 0;       ///< within a factor of 8 of the end
  double over = 0;       ///< beyond it, infinities and NaN included
};

class ExponentHistogram {
 public:
  static constexpr int kLeast = -127;  ///< stands for all below 2^-126
  static constexpr int kMost = 127;

  /// Counts the values of a floating tensor in host memory; others are left out. Float64 counts as
  /// what it is in float32. Asks the account for nothing.
  void add(const Tensor& tensor);
  void add(const ExponentHistogram& other);

  int64_t count(int exponent) const { return counts_[static_cast<size_t>(exponent - kLeast)]; }
  int64_t zeros() const { return zeros_; }
  /// Infinities and NaN.
  int64_t not_finite() const { return not_finite_; }
  int64_t total() const { return zeros_ + non_zero(); }
  /// All but zeros.
  int64_t non_zero() const;
  /// Of the finite numbers other than 0; nothing where there are none.
  std::optional<int> lowest() const;
  std::optional<int> highest() const;
  /// Of the numbers times 2^`shift`, such as a loss scale. To the power of two: the very half of
  /// the smallest number, which becomes 0, counts as subnormal, those that round up to infinity
  /// (65,520 and more in float16) as near, and all below 2^-126 as subnormal in bfloat16.
  RangeShares shares(const FloatRange& range, int shift = 0) const;

 private:
  std::array<int64_t, kMost - kLeast + 1> counts_{};
  int64_t zeros_ = 0, not_finite_ = 0;
};

}  // namespace brim
