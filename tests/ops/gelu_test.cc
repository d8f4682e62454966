#include "brim/ops/gelu.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "brim/tests/support/unary_samples.h"

namespace brim {
namespace {

// As they are defined; in the lower tail 1 + erf and 1 + tanh leave few digits of a double.
double by_erf(double at) {
  long double x = at;
  return static_cast<double>(x / 2 * (1 + std::erf(x / std::numbers::sqrt2_v<long double>)));
}
double by_tanh(double at) {
  long double x = at,
              u = std::sqrt(2 / std::numbers::pi_v<long double>) * (x + 0.044715L * x * x * x);
  return static_cast<double>(x / 2 * (1 + std::tanh(u)));
}

Tensor approximated(Tensor x) {
  return gelu(std::move(x), {.approximate = GeluApproximation::tanh});
}

}  // namespace

TEST_CASE("gelu: spec") {
  OpSpec spec{.op = "gelu",
              .samples = testing::unary_samples({.op = [](Tensor x) { return gelu(std::move(x)); },
                                                 .formula = by_erf,
                                                 .low = -4,
                                                 .high = 4}),
              .errors = {{[] { gelu(zeros({2}, {.dtype = Dtype::int32})); },
                          "gelu: expected a floating dtype, got int32"}}};
  for (OpSample& sample : testing::unary_samples(
           {.op = approximated, .formula = by_tanh, .low = -4, .high = 4, .name = "tanh, "}))
    spec.samples.push_back(std::move(sample));
  check_op(spec);
}

TEST_CASE("gelu: x itself far above 0, nothing far below; NaN stays NaN") {
  for (auto op : {+[](Tensor x) { return gelu(std::move(x)); }, +approximated}) {
    auto [y, dx] = testing::unary_at({-100, 0, 100, NAN}, op);
    CHECK(std::vector<float>(y.begin(), y.begin() + 3) == std::vector<float>{0, 0, 100});
    CHECK(std::vector<float>(dx.begin(), dx.begin() + 3) == std::vector<float>{0, 0.5f, 1});
    CHECK(std::isnan(y[3]));
    CHECK(std::isnan(dx[3]));
  }
}

TEST_CASE("gelu: the approximation is within 5e-4, and is not the exact one") {
  double worst = 0;
  for (double x = -6; x <= 6; x += 1 / 64.0) {
    Tensor at = full({}, x, {.dtype = Dtype::float64});
    worst = std::max(worst, std::abs(gelu(at).item<double>() - approximated(at).item<double>()));
  }
  CHECK(worst < 5e-4);
  CHECK(worst > 1e-4);
}

}  // namespace brim
