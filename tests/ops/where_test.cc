#include "brim/ops/where.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/tests/support/broadcast_reference.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

Tensor random_condition(const Shape& shape) {
  std::vector<double> bits(static_cast<size_t>(numel(shape)));
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = random_bits(RandomKey{3}, 0, i) & 1;
  return convert_to(from_vector(bits, shape), {.dtype = Dtype::boolean});
}

Tensors reference(const Tensors& in) {
  Shape shape = broadcast_shapes(
      in[0].shape(), broadcast_shapes(in[1].shape(), in[2].shape(), "reference"), "reference");
  std::vector<double> condition = in[0].to_vector<double>();
  std::vector<double> a = in[1].to_vector<double>(), b = in[2].to_vector<double>();
  std::vector<double> y(static_cast<size_t>(numel(shape)));
  auto at = [&](size_t i, const Tensor& x) {
    return testing::broadcast_index(i, shape, x.shape());
  };
  for (size_t i = 0; i < y.size(); ++i)
    y[i] = condition[at(i, in[0])] != 0 ? a[at(i, in[1])] : b[at(i, in[2])];
  return {from_vector(y, shape)};
}

OpSample sample(const char* name, const Shape& condition, const Shape& a, const Shape& b,
                int64_t terms, std::vector<int> batched = {}) {
  return {.name = name,
          .inputs = {random_condition(condition),
                     uniform(a, -2, 2, RandomKey{1}, {.dtype = Dtype::float64}),
                     uniform(b, -2, 2, RandomKey{2}, {.dtype = Dtype::float64})},
          .run = [](const Tensors& in) { return Tensors{where(in[0], in[1], in[2])}; },
          .reference = reference,
          .backward_reduction = terms,
          .batched = std::move(batched)};
}

Tensor yes(const Shape& shape = {2}) { return ones(shape, {.dtype = Dtype::boolean}); }

}  // namespace

TEST_CASE("where: spec") {
  check_op(
      {.op = "where",
       .samples = {sample("same shape", {2, 3, 5, 4}, {2, 3, 5, 4}, {2, 3, 5, 4}, 1, {0, 1, 2}),
                   sample("scalars", {3, 7}, {}, {}, 21),
                   sample("scalar condition", {}, {3, 7}, {3, 7}, 1, {1, 2}),
                   sample("mask of pixels", {2, 3, 5, 1}, {2, 3, 5, 4}, {4}, 30, {0, 1}),
                   sample("all repeated", {3, 1, 1}, {5, 1}, {4}, 15),
                   sample("condition of more axes", {2, 3, 4}, {3, 4}, {1}, 24),
                   sample("empty", {3, 0}, {3, 1}, {1}, 3)},
       .errors = {{[] { where(ones({2}), ones({2}), ones({2})); },
                   "where: expected a condition of bool, got float32"},
                  {[] { where(yes(), arange(2), arange(2)); },
                   "where: expected a floating dtype, got int64"},
                  {[] { where(yes(), ones({2}), ones({2}, {.dtype = Dtype::float64})); },
                   "where: expected one dtype, got float32 and float64"},
                  {[] { where(yes(), ones({2}), ones({2}, {.device = Device::meta()})); },
                   "where: expected one device, got cpu and meta"},
                  {[] {
                     TensorOptions meta{.device = Device::meta()};
                     where(yes(), ones({2}, meta), ones({2}, meta));
                   },
                   "where: expected one device, got cpu and meta"},
                  {[] { where(yes({3}), ones({2}), ones({2})); },
                   "where: shapes [3] and [2] do not broadcast"}}});
}

TEST_CASE("where: what is not taken leaves no trace, NaN and infinity neither") {
  Tensor condition = convert_to(from_vector<float>({1, 0}, {2}), {.dtype = Dtype::boolean});
  Tensor a = from_vector<float>({1, NAN}, {2}).set_requires_grad();
  Tensor b = from_vector<float>({INFINITY, 2}, {2}).set_requires_grad();
  Tensor y = where(condition, a, b);
  CHECK(y.to_vector<float>() == std::vector<float>{1, 2});
  backward(y, {.grad = from_vector<float>({3, INFINITY}, {2})});
  CHECK(a.grad().to_vector<float>() == std::vector<float>{3, 0});
  CHECK(b.grad().to_vector<float>() == std::vector<float>{0, INFINITY});
}

TEST_CASE("where: of all inputs the condition alone is saved") {
  Tensor condition = yes(), a = ones({2}).set_requires_grad(), b = ones({2}).set_requires_grad();
  Tensor y = where(condition, a, b);
  CHECK(condition.storage()->tape_holds() == 1);
  CHECK(a.storage()->tape_holds() == 0);
  CHECK(b.storage()->tape_holds() == 0);
}

}  // namespace brim
