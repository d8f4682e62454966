#include "brim/ops/clamp.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/ops/cast.h"
#include "brim/tests/support/unary_samples.h"

namespace brim {
namespace {

// The bounds of the samples are numbers of every dtype: rounding moves none of them.
std::vector<OpSample> samples(const char* name, const ClampOptions& options) {
  std::vector<double> kinks;
  for (const auto& bound : {options.min, options.max})
    if (bound) kinks.push_back(*bound);
  return testing::unary_samples({.op = [=](Tensor x) { return clamp(std::move(x), options); },
                                 .formula =
                                     [=](double x) {
                                       if (options.min && x < *options.min) x = *options.min;
                                       return options.max && x > *options.max ? *options.max : x;
                                     },
                                 .kinks = kinks,
                                 .name = name});
}

auto clamped(const ClampOptions& options) {
  return [=](Tensor x) { return clamp(std::move(x), options); };
}

}  // namespace

TEST_CASE("clamp: spec") {
  OpSpec spec{.op = "clamp",
              .samples = samples("both, ", {.min = -0.75, .max = 1.25}),
              .errors = {{[] { clamp(ones({2}), {}); }, "clamp: expected a min, a max or both"},
                         {[] { clamp(ones({2}), {.min = 0, .max = NAN}); },
                          "clamp: expected a max that is a number, got nan"},
                         {[] { clamp(zeros({2}, {.dtype = Dtype::int32}), {.min = 0}); },
                          "clamp: expected a floating dtype, got int32"}}};
  for (OpSample& sample : samples("min, ", {.min = -0.5})) spec.samples.push_back(sample);
  for (OpSample& sample : samples("max, ", {.max = 0.5})) spec.samples.push_back(sample);
  check_op(spec);
}

TEST_CASE("clamp: no gradient at the bounds and beyond; a missing bound limits nothing") {
  std::vector<float> x{-INFINITY, -4, -3, 0, 3, 4, INFINITY};
  testing::UnaryResult both = testing::unary_at(x, clamped({.min = -3, .max = 3}));
  CHECK(both.y == std::vector<float>{-3, -3, -3, 0, 3, 3, 3});
  CHECK(both.dx == std::vector<float>{0, 0, 0, 1, 0, 0, 0});
  testing::UnaryResult above = testing::unary_at(x, clamped({.min = -3}));
  CHECK(above.y == std::vector<float>{-3, -3, -3, 0, 3, 4, INFINITY});
  CHECK(above.dx == std::vector<float>{0, 0, 0, 1, 1, 1, 1});
  testing::UnaryResult below = testing::unary_at(x, clamped({.max = 3}));
  CHECK(below.y == std::vector<float>{-INFINITY, -4, -3, 0, 3, 3, 3});
  CHECK(below.dx == std::vector<float>{1, 1, 1, 1, 0, 0, 0});
}

TEST_CASE("clamp: the max wins over a min above it; NaN stays NaN and has no gradient") {
  testing::UnaryResult crossed = testing::unary_at({-4, 0, 4}, clamped({.min = 3, .max = -3}));
  CHECK(crossed.y == std::vector<float>{-3, -3, -3});
  CHECK(crossed.dx == std::vector<float>{0, 0, 0});
  testing::UnaryResult nan = testing::unary_at({NAN}, clamped({.min = -3, .max = 3}));
  CHECK(std::isnan(nan.y[0]));
  CHECK(nan.dx[0] == 0);
}

TEST_CASE("clamp: bounds that a dtype does not have are rounded, and still stop gradients") {
  for (Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16}) {
    CAPTURE(to_string(dtype));
    auto op = [=](Tensor x) {
      return cast(clamp(cast(std::move(x), dtype), {.min = -0.1, .max = 0.1}), Dtype::float32);
    };
    CHECK(testing::unary_at({-1, 0, 1}, op).dx == std::vector<float>{0, 1, 0});
  }
}

}  // namespace brim
