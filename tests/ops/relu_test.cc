#include "brim/ops/relu.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

Tensors reference(const Tensors& in) {
  std::vector<double> y = in[0].to_vector<double>();
  for (double& v : y)
    if (v < 0) v = 0;
  return {from_vector(y, in[0].shape())};
}

OpSample sample(const char* name, const Shape& shape) {
  return {.name = name,
          .inputs = {uniform(shape, -2, 2, RandomKey{1}, {.dtype = Dtype::float64})},
          .run = [](const Tensors& in) { return Tensors{relu(in[0])}; },
          .reference = reference,
          .kink = [](size_t, double value) { return std::abs(value) < 1e-5; },
          .batched = {0}};
}

}  // namespace

TEST_CASE("relu: spec") {
  check_op({.op = "relu",
            .samples = {sample("images", {2, 3, 5, 4}),
                        sample("vector", {37}),
                        {.name = "empty",
                         .inputs = {zeros({3, 0, 2}, {.dtype = Dtype::float64})},
                         .run = [](const Tensors& in) { return Tensors{relu(in[0])}; },
                         .reference = reference}},
            .errors = {{[] { relu(zeros({2}, {.dtype = Dtype::int32})); },
                        "relu: expected a floating dtype, got int32"}}});
}

TEST_CASE("relu: NaN stays NaN and the gradient at 0 is 0") {
  Tensor y = relu(from_vector<float>({NAN, -1, 0, 2}, {4}));
  std::vector<float> values = y.to_vector<float>();
  CHECK(std::isnan(values[0]));
  CHECK(values[1] == 0);
  CHECK(values[2] == 0);
  CHECK(values[3] == 2);
}

}  // namespace brim
