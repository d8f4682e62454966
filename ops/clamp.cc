#include "brim/ops/clamp.h"

#include <cmath>
#include <limits>

#include "brim/ops/unary.h"

namespace brim {
namespace {

// As x's elements are: otherwise a limited one would not compare equal to its bound in backward.
double rounded_to(Dtype dtype, double value) {
  return visit_dtype(dtype, [=]<class T>() { return convert<double>(convert<T>(value)); });
}

// NaN, which limits nothing, where there is none.
double bound_of(const char* what, const std::optional<double>& bound, Dtype dtype) {
  if (!bound) return std::numeric_limits<double>::quiet_NaN();
  expect<ValueError>(!std::isnan(*bound), "clamp", "expected a {} that is a number, got {}", what,
                     *bound);
  return rounded_to(dtype, *bound);
}

}  // namespace

Tensor clamp(Tensor x, ClampOptions options, Where where) {
  expect<ValueError>(options.min || options.max, "clamp", "expected a min, a max or both");
  require_floating("clamp", x);
  double low = bound_of("min", options.min, x.dtype()),
         high = bound_of("max", options.max, x.dtype());
  return apply_unary(std::move(x), where, UnarySaves::output, kernel::clamp, kernel::clamp_backward,
                     {low, high}, {low, high});
}

}  // namespace brim
