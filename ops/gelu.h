// Gaussian error linear unit, x times the chance that a standard normal is below x: the activation
// of transformers (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016). It takes an `erfc`
// or `exp` per element, and more for the gradient: next to convolutions, `hardswish` costs less.
// Weights that were trained with one form want the same form again.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

enum class GeluApproximation {
  none,  ///< x * (1 + erf(x / sqrt(2))) / 2
  tanh,  ///< x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2, within 5e-4 of it
};

struct GeluOptions {
  GeluApproximation approximate = GeluApproximation::none;
};

/// y = x * Phi(x), elementwise, with Phi the distribution function of the standard normal or its
/// approximation; any shape, floating dtypes. NaN stays NaN. Saves its input.
Tensor gelu(Tensor x, GeluOptions options = {}, Where where = Where::current());

}  // namespace brim
