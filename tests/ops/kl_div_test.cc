#include "brim/ops/kl_div.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/ops/log_softmax.h"
#include "brim/ops/softmax.h"
#include "brim/tests/support/loss_reference.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

OpSample sample(const char* name, const Shape& shape, const KlDivOptions& options) {
  auto random = [&](float low, float high, uint64_t key) {
    return uniform(shape, low, high, RandomKey{key}, {.dtype = Dtype::float64});
  };
  bool log_target = options.log_target;
  return testing::loss_sample(
      name, random(-4, 0, 1), log_target ? random(-4, 0, 2) : random(0.05f, 1, 2),
      options.reduction, [=](const Tensors& in) { return kl_div(in[0], in[1], options); },
      [=](const Tensors& in) {
        return testing::loss_reference(in, options.reduction, [=](double x, double t, size_t) {
          double p = log_target ? std::exp(t) : t;
          return p * std::log(p) - p * x;
        });
      });
}

}  // namespace

TEST_CASE("kl_div: spec") {
  check_op({.op = "kl_div",
            .samples = {sample("mean", {4, 5}, {}),
                        sample("batch mean", {4, 5}, {.reduction = Reduction::batch_mean}),
                        sample("sum", {4, 5}, {.reduction = Reduction::sum}),
                        sample("none", {2, 3, 5}, {.reduction = Reduction::none}),
                        sample("log target", {4, 5}, {.log_target = true}),
                        sample("log target, none", {2, 3, 5},
                               {.reduction = Reduction::none, .log_target = true}),
                        sample("several pieces", {3, 5000}, {.reduction = Reduction::batch_mean})},
            .errors = {{[] {
                          kl_div(zeros({2, 3}), zeros({3}));
                        },
                        "kl_div: expected input and target of one shape, got [2,3] and [3]"},
                       {[] { kl_div(zeros({3}), zeros({3}, {.dtype = Dtype::float16})); },
                        "kl_div: expected one dtype, got float32 and float16"},
                       {[] { kl_div(zeros({}), zeros({}), {.reduction = Reduction::batch_mean}); },
                        "kl_div: expected an axis of samples for batch_mean, got a scalar"}}});
}

TEST_CASE("kl_div: a target of 0 adds nothing, whatever the input") {
  Tensor x = from_vector<float>({-INFINITY, 0}, {2}).set_requires_grad();
  Tensor loss = kl_div(x, from_vector<float>({0, 1}, {2}), {.reduction = Reduction::sum});
  CHECK(loss.item<float>() == 0);
  backward(loss);
  CHECK(x.grad().to_vector<float>() == std::vector<float>{0, -1});
}

TEST_CASE("kl_div: of a distribution with itself is 0, with any other more") {
  Tensor a = uniform({8, 10}, -2, 2, RandomKey{1}, {.dtype = Dtype::float64});
  Tensor b = uniform({8, 10}, -2, 2, RandomKey{2}, {.dtype = Dtype::float64});
  auto divergence = [](const Tensor& of, const Tensor& from) {
    return kl_div(log_softmax(from), softmax(of), {.reduction = Reduction::batch_mean})
        .item<double>();
  };
  // Ten terms that cancel, each of them at most 1 and a few roundings off.
  CHECK(std::abs(divergence(a, a)) < 40 * epsilon(Dtype::float64));
  CHECK(divergence(a, b) > 0.1);
}

}  // namespace brim
