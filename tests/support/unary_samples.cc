#include "brim/tests/support/unary_samples.h"

#include <algorithm>
#include <cmath>

#include "brim/autograd/backward.h"

namespace brim::testing {
namespace {

OpSample sample(const char* name, const Shape& shape, const UnaryCase& of) {
  return {.name = of.name + name,
          .inputs = {uniform(shape, of.low, of.high, RandomKey{1}, {.dtype = Dtype::float64})},
          .run = [op = of.op](const Tensors& in) { return Tensors{op(in[0])}; },
          .reference =
              [formula = of.formula](const Tensors& in) {
                std::vector<double> values = in[0].to_vector<double>();
                for (double& value : values) value = formula(value);
                return Tensors{from_vector(values, in[0].shape())};
              },
          .kink =
              [kinks = of.kinks](size_t, double value) {
                return std::ranges::any_of(
                    kinks, [=](double kink) { return std::abs(value - kink) < 1e-5; });
              },
          .differentiable = of.differentiable,
          .batched = shape.empty() ? std::vector<int>() : std::vector<int>{0}};
}

}  // namespace

std::vector<OpSample> unary_samples(const UnaryCase& of) {
  return {sample("images", {2, 3, 5, 4}, of), sample("vector", {137}, of), sample("scalar", {}, of),
          sample("empty", {3, 0, 2}, of)};
}

UnaryResult unary_at(const std::vector<float>& points, const std::function<Tensor(Tensor)>& op) {
  Shape shape{static_cast<int64_t>(points.size())};
  Tensor x = from_vector(points, shape).set_requires_grad(), y = op(x);
  backward(y, {.grad = ones(shape)});
  return {y.to_vector<float>(), x.grad().to_vector<float>()};
}

}  // namespace brim::testing
