#include "brim/ops/comparison.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "brim/tests/support/broadcast_reference.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

using Compare = std::function<Tensor(Tensor, Tensor)>;

/// Whole numbers from -2 to 2, so that many are equal.
Tensor few_numbers(const Shape& shape, uint64_t key) {
  std::vector<double> values(static_cast<size_t>(numel(shape)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>(random_bits(RandomKey{key}, 0, i) % 5) - 2;
  return from_vector(values, shape);
}

std::vector<OpSample> samples(const Compare& op, const std::function<bool(double, double)>& holds) {
  struct Shapes {
    const char* name;
    Shape a, b;
    std::vector<int> batched = {};
  };
  std::vector<OpSample> samples;
  for (const Shapes& shapes :
       {Shapes{"same shape", {2, 3, 5, 4}, {2, 3, 5, 4}, {0, 1}}, Shapes{"scalar", {3, 7}, {}, {0}},
        Shapes{"scalar first", {1}, {3, 7}, {1}}, Shapes{"per channel", {6, 70}, {70}, {0}},
        Shapes{"both repeated", {3, 1, 4}, {5, 1}}, Shapes{"empty", {3, 0}, {3, 1}}})
    samples.push_back({.name = shapes.name,
                       .inputs = {few_numbers(shapes.a, 1), few_numbers(shapes.b, 2)},
                       .run = [=](const Tensors& in) { return Tensors{op(in[0], in[1])}; },
                       .reference =
                           [=](const Tensors& in) {
                             const Tensor y = testing::broadcast_reference(
                                 in[0], in[1],
                                 [=](double a, double b) { return holds(a, b) ? 1.0 : 0.0; });
                             return Tensors{convert_to(y, {.dtype = Dtype::boolean})};
                           },
                       .differentiable = false,
                       .batched = shapes.batched});
  return samples;
}

std::vector<ErrorCase> errors(const Compare& op) {
  return {{[=] {
             op(zeros({2, 3}), zeros({4}));
           },
           "shapes [2,3] and [4] do not broadcast"},
          {[=] { op(zeros({2}), arange(2)); }, "expected one dtype, got float32 and int64"},
          {[=] { op(zeros({2}), zeros({2}, {.device = Device::meta()})); },
           "expected one device, got cpu and meta"},
          {[=] { op(ones({2}, {.dtype = Dtype::boolean}), ones({2}, {.dtype = Dtype::boolean})); },
           "expected a floating dtype, int64, int32 or uint8, got bool"}};
}

std::vector<bool> bits(const Tensor& y) {
  std::vector<bool> bits;
  for (const double value : y.to_vector<double>()) bits.push_back(value != 0);
  return bits;
}

}  // namespace

TEST_CASE("eq: spec") {
  const Compare op = [](Tensor a, Tensor b) { return eq(std::move(a), std::move(b)); };
  check_op({.op = "eq",
            .samples = samples(op, [](double a, double b) { return a == b; }),
            .errors = errors(op)});
}

TEST_CASE("ne: spec") {
  const Compare op = [](Tensor a, Tensor b) { return ne(std::move(a), std::move(b)); };
  check_op({.op = "ne",
            .samples = samples(op, [](double a, double b) { return a != b; }),
            .errors = errors(op)});
}

TEST_CASE("lt: spec") {
  const Compare op = [](Tensor a, Tensor b) { return lt(std::move(a), std::move(b)); };
  check_op({.op = "lt",
            .samples = samples(op, [](double a, double b) { return a < b; }),
            .errors = errors(op)});
}

TEST_CASE("le: spec") {
  const Compare op = [](Tensor a, Tensor b) { return le(std::move(a), std::move(b)); };
  check_op({.op = "le",
            .samples = samples(op, [](double a, double b) { return a <= b; }),
            .errors = errors(op)});
}

TEST_CASE("gt: spec") {
  const Compare op = [](Tensor a, Tensor b) { return gt(std::move(a), std::move(b)); };
  check_op({.op = "gt",
            .samples = samples(op, [](double a, double b) { return a > b; }),
            .errors = errors(op)});
}

TEST_CASE("ge: spec") {
  const Compare op = [](Tensor a, Tensor b) { return ge(std::move(a), std::move(b)); };
  check_op({.op = "ge",
            .samples = samples(op, [](double a, double b) { return a >= b; }),
            .errors = errors(op)});
}

TEST_CASE("comparison: whole numbers are compared as they are") {
  const int64_t large = (int64_t{1} << 53) + 1;  // float64 does not have it
  const Tensor a = from_vector<int64_t>({large, 3, -1}, {3});
  const Tensor b = from_vector<int64_t>({large - 1, 3, 2}, {3});
  CHECK(bits(eq(a, b)) == std::vector<bool>{false, true, false});
  CHECK(bits(gt(a, b)) == std::vector<bool>{true, false, false});
  CHECK(bits(lt(from_vector<uint8_t>({1, 255}, {2}), from_vector<uint8_t>({2, 127}, {2}))) ==
        std::vector<bool>{true, false});
  CHECK(bits(le(from_vector<int32_t>({-5, 4}, {2}), from_vector<int32_t>({-5, 3}, {2}))) ==
        std::vector<bool>{true, false});
}

TEST_CASE("comparison: nothing is equal to NaN, smaller or larger") {
  const Tensor nan = full({2}, NAN);
  CHECK(bits(ne(nan, nan)) == std::vector<bool>{true, true});
  for (const auto& op : {eq, lt, le, gt, ge})
    CHECK(bits(op(nan, nan, Where::current())) == std::vector<bool>{false, false});
}

TEST_CASE("comparison: has no gradient") {
  const Tensor x = ones({2}).set_requires_grad();
  CHECK_FALSE(eq(x, x).requires_grad());
}

}  // namespace brim
