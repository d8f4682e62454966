#include "brim/ops/relu6.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

OpSample sample(const char* name, const Shape& shape) {
  return {.name = name,
          .inputs = {uniform(shape, -4, 10, RandomKey{1}, {.dtype = Dtype::float64})},
          .run = [](const Tensors& in) { return Tensors{relu6(in[0])}; },
          .reference =
              [](const Tensors& in) {
                std::vector<double> y = in[0].to_vector<double>();
                for (double& v : y) v = std::clamp(v, 0.0, 6.0);
                return Tensors{from_vector(y, in[0].shape())};
              },
          .kink = [](size_t,
                     double value) { return std::abs(value) < 1e-5 || std::abs(value - 6) < 1e-5; },
          .batched = {0}};
}

}  // namespace

TEST_CASE("relu6: spec") {
  check_op(
      {.op = "relu6",
       .samples = {sample("images", {2, 3, 5, 4}), sample("scalar", {}), sample("empty", {2, 0})},
       .errors = {{[] { relu6(zeros({2}, {.dtype = Dtype::uint8})); },
                   "relu6: expected a floating dtype, got uint8"}}});
}

TEST_CASE("relu6: no gradient at 0, at 6, and beyond; NaN stays NaN") {
  Tensor x = from_vector<float>({-1, 0, 3, 6, 7}, {5});
  x.set_requires_grad();
  backward(relu6(x), {.grad = ones({5})});
  CHECK(x.grad().to_vector<float>() == std::vector<float>{0, 0, 1, 0, 0});
  CHECK(std::isnan(relu6(full({}, NAN)).item<float>()));
}

}  // namespace brim
