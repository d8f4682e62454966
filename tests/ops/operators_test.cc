// Operators are the ops of their names, with the line of the operand, and numbers on either side.
#include "brim/ops/operators.h"

#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/memory/account.h"
#include "brim/memory/planner.h"
#include "brim/memory/source.h"
#include "brim/ops/cast.h"
#include "brim/ops/mean.h"
#include "brim/ops/relu.h"
#include "brim/ops/sum.h"
#include "brim/tests/support/compare.h"
#include "brim/tests/support/op_spec.h"

using namespace brim;

namespace {

using Numbers = std::vector<double>;

Numbers values(const Tensor& x) { return x.to_vector<double>(); }

}  // namespace

TEST_CASE("operators: tensors and numbers on either side") {
  const Tensor x = from_vector<float>({1, 2, 4}, {3}), y = from_vector<float>({3, 2, 1}, {3});
  CHECK(values(x + y) == Numbers{4, 4, 5});
  CHECK(values(x - 2 * y) == Numbers{-5, -2, 2});
  CHECK(values(-x / 2) == Numbers{-0.5, -1, -2});
  CHECK(values(8 / x) == Numbers{8, 4, 2});
  CHECK(values(1.5f + x) == Numbers{2.5, 3.5, 5.5});
  CHECK(values(x * y - 1u) == Numbers{2, 3, 3});
  CHECK(values(x < y) == Numbers{1, 0, 0});
  CHECK(values(x <= y) == Numbers{1, 1, 0});
  CHECK(values(x > 1) == Numbers{0, 1, 1});
  CHECK(values(2 >= x) == Numbers{1, 1, 0});
  CHECK(values(x == y) == Numbers{0, 1, 0});
  CHECK(values(x != 2) == Numbers{1, 0, 1});
}

TEST_CASE("operators: a number has the tensor's dtype and device") {
  for (const Dtype dtype : {Dtype::float16, Dtype::bfloat16, Dtype::float64})
    CHECK((1 + ones({2}, {.dtype = dtype}) * 3).dtype() == dtype);
  CHECK((ones({2}, {.device = Device::meta()}) / 2).device().is_meta());
  CHECK(values(from_vector<int64_t>({3, 5}, {2}) == 5) == Numbers{0, 1});
}

TEST_CASE("operators: gradients flow, and accuracy is a mean of comparisons") {
  Tensor x = from_vector<float>({1, 2}, {2}).set_requires_grad();
  backward(((x - 3) * (x - 3) / 2).sum());
  CHECK(values(x.grad()) == Numbers{-2, -1});
  const Tensor logits = from_vector<float>({0, 1, 1, 0, 3, 2}, {3, 2});
  const Tensor labels = from_vector<int64_t>({1, 1, 0}, {3});
  CHECK(cast(logits.argmax(1) == labels, Dtype::float64).mean().item<double>() ==
        doctest::Approx(2.0 / 3));
}

TEST_CASE("operators: reductions take an axis, and keepdim as PyTorch spells it") {
  const Tensor x = from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(sum(x, 1).shape() == Shape{2});
  CHECK(sum(x, 1, keepdim).shape() == Shape{2, 1});
  CHECK(values(mean(x, -1, keepdim)) == Numbers{2, 5});
  CHECK(values(sum(x, {0, 1})) == Numbers{21});
  CHECK(values(x.sum(0)) == Numbers{5, 7, 9});
  CHECK(x.mean().item<float>() == 3.5f);
  CHECK(x.reshape({3, -1}).shape() == Shape{3, 2});
}

TEST_CASE("operators: errors name the op, and the line where they stand") {
  const Tensor x = ones({2}), y = ones({3});
  CHECK_THROWS_WITH_AS(x + y, "add: shapes [2] and [3] do not broadcast", ShapeError);
  CHECK_THROWS_AS(x - Tensor(), Error);
  Tensor a = ones({}, {.device = Device::meta()}).set_requires_grad();
  const int line = __LINE__ + 1;
  const Tensor b = a * 2;
  CHECK_THROWS_WITH_AS(b.item<float>(),
                       doctest::Contains(("operators_test.cc:" + std::to_string(line)).c_str()),
                       DeviceError);
}

TEST_CASE("operators: what is handed over is freed as soon as with the functions") {
  const auto peak_of = [](const std::function<Tensor(Tensor)>& compute) {
    const auto account = std::make_shared<memory::Account>(
        Device::cpu(), std::make_unique<memory::HostSource>(), memory::planner_named("direct"));
    const memory::AccountScope scope(account);
    compute(ones({1000}));
    return account->stats().peak_live;
  };
  const int64_t chained = peak_of([](Tensor x) { return relu(std::move(x) + 1) * 2 - 1; });
  CHECK(chained <= 2 * 4032 + 3 * 64);
}
