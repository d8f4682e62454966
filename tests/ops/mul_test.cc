#include "brim/ops/mul.h"

#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/tests/support/broadcast_reference.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

OpSample sample(const char* name, const Shape& a, const Shape& b, int64_t terms,
                std::vector<int> batched = {}) {
  return {.name = name,
          .inputs = {uniform(a, -2, 2, RandomKey{1}, {.dtype = Dtype::float64}),
                     uniform(b, -2, 2, RandomKey{2}, {.dtype = Dtype::float64})},
          .run = [](const Tensors& in) { return Tensors{mul(in[0], in[1])}; },
          .reference =
              [](const Tensors& in) {
                return Tensors{testing::broadcast_reference(
                    in[0], in[1], [](double x, double y) { return x * y; })};
              },
          .backward_reduction = terms,
          .batched = std::move(batched)};
}

}  // namespace

TEST_CASE("mul: spec") {
  check_op({.op = "mul",
            .samples = {sample("same shape", {2, 3, 5, 4}, {2, 3, 5, 4}, 1, {0, 1}),
                        sample("scalar", {3, 7}, {}, 21, {0}),
                        sample("scalar first", {1}, {3, 7}, 21, {1}),
                        sample("per channel", {2, 3, 5, 4}, {4}, 30, {0}),
                        sample("per channel first", {1, 1, 3}, {11, 9, 3}, 99, {1}),
                        sample("many channels", {6, 70}, {70}, 6, {0}),
                        sample("per image and channel", {2, 3, 5, 4}, {2, 1, 1, 4}, 15, {0, 1}),
                        sample("per pixel", {2, 3, 5, 4}, {2, 3, 5, 1}, 4, {0, 1}),
                        sample("both repeated", {3, 1, 4}, {5, 1}, 12),
                        sample("empty", {3, 0}, {3, 1}, 1)},
            .errors = {
                {[] {
                   mul(zeros({2, 3}), zeros({4}));
                 },
                 "mul: shapes [2,3] and [4] do not broadcast"},
                {[] { mul(zeros({2}), zeros({2}, {.dtype = Dtype::float64})); },
                 "mul: expected one dtype, got float32 and float64"},
                {[] { mul(zeros({2}), zeros({2}, {.device = Device::meta()})); },
                 "mul: expected one device, got cpu and meta"},
                {[] { mul(arange(2), arange(2)); }, "mul: expected a floating dtype, got int64"}}});
}

TEST_CASE("mul: only what the other's gradient needs is saved") {
  Tensor a = ones({4}), b = ones({4});
  a.set_requires_grad();
  Tensor y = mul(a, b);
  CHECK(a.storage()->tape_holds() == 0);
  CHECK(b.storage()->tape_holds() == 1);
}

TEST_CASE("mul: an input that was overwritten is refused, with the name of the writer") {
  Tensor a = ones({4}), b = ones({4});
  a.set_requires_grad();
  Tensor y = mul(a, b);
  fill(b, 2);
  CHECK_THROWS_WITH_AS(backward(y, {.grad = ones({4})}),
                       "mul: a saved tensor of shape [4] was overwritten by 'fill' after the "
                       "forward pass",
                       AutogradError);
}

TEST_CASE("mul: the square of a tensor has the gradient 2x") {
  Tensor a = full({3}, 5);
  a.set_requires_grad();
  backward(mul(a, a), {.grad = ones({3})});
  CHECK(a.grad().to_vector<float>() == std::vector<float>{10, 10, 10});
}

}  // namespace brim
