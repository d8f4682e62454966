#include "brim/ops/permute.h"

#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/ops/relu.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

// y[i] = x[j] with j[axes[k]] = i[k], index by index.
Tensor reference(const Tensor& x, const std::vector<int>& axes) {
  Shape shape;
  for (int axis : axes) shape.push_back(x.shape()[axis]);
  std::vector<double> from = x.to_vector<double>(), to(from.size());
  for (size_t i = 0; i < to.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    Dims index = Dims::filled(x.dim(), 0);
    for (int k = x.dim() - 1; k >= 0; --k) {
      index[axes[static_cast<size_t>(k)]] = rest % shape[k];
      rest /= shape[k];
    }
    int64_t at = 0;
    for (int axis = 0; axis < x.dim(); ++axis) at = at * x.shape()[axis] + index[axis];
    to[i] = from[static_cast<size_t>(at)];
  }
  return from_vector(to, shape);
}

OpSample sample(const char* name, const Shape& shape, std::vector<int> axes) {
  return {.name = name,
          .inputs = {uniform(shape, -2, 2, RandomKey{1}, {.dtype = Dtype::float64})},
          .run = [=](const Tensors& in) { return Tensors{permute(in[0], axes)}; },
          .reference = [=](const Tensors& in) { return Tensors{reference(in[0], axes)}; }};
}

}  // namespace

TEST_CASE("permute: spec") {
  Tensor x = ones({2, 3});
  check_op(
      {.op = "permute",
       .samples = {sample("to NHWC", {2, 3, 4, 5}, {0, 2, 3, 1}),
                   sample("cycle", {2, 3, 4}, {2, 0, 1}), sample("nothing", {2, 3}, {0, 1}),
                   sample("scalar", {}, {}), sample("empty", {2, 0, 3}, {2, 1, 0})},
       .errors = {{[=] { permute(x, {0}); }, "permute: expected 2 axes, one for each of x, got 1"},
                  {[=] {
                     permute(x, {0, 0});
                   },
                   "permute: axis 0 is named twice"},
                  {[=] {
                     permute(x, {0, 2});
                   },
                   "permute: axis 2 is out of range for 2 dimensions"}}});
}

TEST_CASE("permute: is a view, and axes count from the end") {
  Tensor x = uniform({2, 3, 4}, -1, 1, RandomKey{1});
  Tensor y = permute(x, {-1, 0, 1});
  CHECK(y.storage() == x.storage());
  CHECK(y.shape() == Shape{4, 2, 3});
}

TEST_CASE("permute: gradients that meet at a view are added") {
  Tensor x = from_vector<float>({-1, 2, 3, 4, 5, 6}, {2, 3}).set_requires_grad();
  Tensor y = permute(x, {1, 0});
  Tensor z = relu(y);
  backward(y, {.grad = ones({3, 2}), .retain_graph = true});
  backward(z, {.grad = ones({3, 2})});
  CHECK(x.grad().to_vector<float>() == std::vector<float>{1, 2, 2, 2, 2, 2});
}

}  // namespace brim
