#include "brim/ops/binary_cross_entropy_with_logits.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/tests/support/loss_reference.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

Tensor random(const Shape& shape, double low, double high, uint64_t key) {
  return uniform(shape, static_cast<float>(low), static_cast<float>(high), RandomKey{key},
                 {.dtype = Dtype::float64});
}

OpSample sample(const char* name, const Shape& shape, Reduction reduction, bool weighted = false) {
  OpSample sample = testing::loss_sample(
      name, random(shape, -4, 4, 1), random(shape, 0, 1, 2), reduction,
      [=](const Tensors& in) {
        return binary_cross_entropy_with_logits(
            in[0], in[1], {.positive_weight = weighted ? in[2] : Tensor(), .reduction = reduction});
      },
      [=](const Tensors& in) {
        std::vector<double> weights = weighted ? in[2].to_vector<double>() : std::vector{1.0};
        return testing::loss_reference(in, reduction, [&](double x, double t, size_t i) {
          double p = 1 / (1 + std::exp(-x));
          return -weights[i % weights.size()] * t * std::log(p) - (1 - t) * std::log(1 - p);
        });
      });
  if (weighted) {
    sample.inputs.push_back(random({shape.back()}, 0.5, 3, 3));
    sample.no_grad = {2};
    sample.wide = {2};
  }
  return sample;
}

Tensor losses(const std::vector<float>& logits, const std::vector<float>& target) {
  Shape shape{static_cast<int64_t>(logits.size())};
  return binary_cross_entropy_with_logits(from_vector(logits, shape), from_vector(target, shape),
                                          {.reduction = Reduction::none});
}

}  // namespace

TEST_CASE("binary_cross_entropy_with_logits: spec") {
  auto call = [](const Shape& logits, const Shape& target, Tensor weight = {}) {
    return [=] {
      binary_cross_entropy_with_logits(zeros(logits), zeros(target), {.positive_weight = weight});
    };
  };
  check_op(
      {.op = "binary_cross_entropy_with_logits",
       .samples = {sample("mean", {4, 5}, Reduction::mean), sample("sum", {4, 5}, Reduction::sum),
                   sample("none", {2, 3, 5, 4}, Reduction::none),
                   sample("batch mean", {4, 5}, Reduction::batch_mean),
                   sample("positive weight", {4, 5}, Reduction::mean, true),
                   sample("positive weight, none", {2, 3, 5, 4}, Reduction::none, true),
                   sample("several pieces", {700, 7}, Reduction::sum, true),
                   sample("scalars", {}, Reduction::mean)},
       .errors = {
           {call({4}, {4, 1}),
            "binary_cross_entropy_with_logits: expected input and target of one shape, got [4] and "
            "[4,1]"},
           {call({2, 3}, {2, 3}, ones({2})),
            "binary_cross_entropy_with_logits: expected positive_weight of shape [3] for input "
            "[2,3], got [2]"},
           {call({}, {}, ones({1})), "expected an input with channels, got a scalar"},
           {call({2, 3}, {2, 3}, ones({3}, {.dtype = Dtype::float64})),
            "expected positive_weight of float32, got float64"},
           {[] { binary_cross_entropy_with_logits(arange(3), arange(3)); },
            "expected a floating dtype, got int64"}}});
}

TEST_CASE("binary_cross_entropy_with_logits: large logits overflow nowhere, small losses stay") {
  // softplus(-50) = exp(-50) to within its square; 1000 - 1000 * 1 would have no digit left.
  float tiny = std::exp(-50.0f);
  CHECK(losses({1e4f, -1e4f, 1e4f, -1e4f, 50, -50}, {1, 0, 0, 1, 1, 0}).to_vector<float>() ==
        std::vector<float>{0, 0, 1e4f, 1e4f, tiny, tiny});
  Tensor x = from_vector<float>({1e4f, -1e4f, 1e4f, -1e4f}, {4}).set_requires_grad();
  backward(binary_cross_entropy_with_logits(x, from_vector<float>({1, 0, 0, 1}, {4}),
                                            {.reduction = Reduction::sum}));
  CHECK(x.grad().to_vector<float>() == std::vector<float>{0, 0, 1, -1});
}

TEST_CASE("binary_cross_entropy_with_logits: an undecided logit costs log 2") {
  CHECK(losses({0, 0, 0}, {0, 0.5f, 1}).to_vector<float>() ==
        std::vector<float>(3, std::log(2.0f)));
}

}  // namespace brim
