#include "brim/train/beta.h"

#include <cmath>

namespace brim {
namespace {

/// In (0, 1], so that its logarithm is finite.
double positive_uniform(RandomStream& random) { return (random.bits() + 1.0) * 0x1p-32; }

/// Box and Muller.
double normal(RandomStream& random) {
  const double radius = std::sqrt(-2 * std::log(positive_uniform(random)));
  return radius * std::cos(6.283185307179586 * positive_uniform(random));
}

/// The logarithm of a draw from Gamma(shape, 1).
double log_gamma(double shape, RandomStream& random) {
  // Gamma(a) is Gamma(a + 1) * U^(1/a); the method below wants a shape of at least 1.
  if (shape < 1) {
    const double power = std::log(positive_uniform(random)) / shape;
    return log_gamma(shape + 1, random) + power;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal(random), root = 1 + c * x;
    if (root <= 0) continue;
    const double log_v = 3 * std::log(root);
    if (std::log(positive_uniform(random)) < x * x / 2 + d - d * std::exp(log_v) + d * log_v)
      return std::log(d) + log_v;
  }
}

}  // namespace

// The logarithm of a uniform number is above -23, so for an alpha below 1e-306 both results
// could be minus infinity, and their difference NaN: `check_mix` refuses it.
double draw_beta(double alpha, RandomStream& random) {
  const double x = log_gamma(alpha, random), y = log_gamma(alpha, random);
  return 1 / (1 + std::exp(y - x));
}

}  // namespace brim
