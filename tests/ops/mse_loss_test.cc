#include "brim/ops/mse_loss.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/base/parallel.h"
#include "brim/tests/support/loss_reference.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

OpSample sample(const char* name, const Shape& shape, Reduction reduction) {
  auto random = [&](uint64_t key) {
    return uniform(shape, -2, 2, RandomKey{key}, {.dtype = Dtype::float64});
  };
  return testing::loss_sample(
      name, random(1), random(2), reduction,
      [=](const Tensors& in) { return mse_loss(in[0], in[1], {.reduction = reduction}); },
      [=](const Tensors& in) {
        return testing::loss_reference(
            in, reduction, [](double x, double t, size_t) { return std::pow(x - t, 2); });
      });
}

}  // namespace

TEST_CASE("mse_loss: spec") {
  check_op(
      {.op = "mse_loss",
       .samples = {sample("mean", {4, 5}, Reduction::mean), sample("sum", {4, 5}, Reduction::sum),
                   sample("none", {2, 3, 5, 4}, Reduction::none),
                   sample("batch mean", {4, 5}, Reduction::batch_mean),
                   sample("several pieces", {3, 5000}, Reduction::mean),
                   sample("scalars", {}, Reduction::mean)},
       .errors = {{[] {
                     mse_loss(zeros({4}), zeros({4, 1}));
                   },
                   "mse_loss: expected input and target of one shape, got [4] and [4,1]"},
                  {[] { mse_loss(zeros({4}), zeros({4}, {.dtype = Dtype::float64})); },
                   "mse_loss: expected one dtype, got float32 and float64"},
                  {[] { mse_loss(arange(4), arange(4)); },
                   "mse_loss: expected a floating dtype, got int64"},
                  {[] { mse_loss(zeros({}), zeros({}), {.reduction = Reduction::batch_mean}); },
                   "mse_loss: expected an axis of samples for batch_mean, got a scalar"}}});
}

TEST_CASE("mse_loss: the mean over nothing is NaN") {
  CHECK(std::isnan(mse_loss(zeros({0}), zeros({0})).item<float>()));
}

TEST_CASE("mse_loss: the mean of many elements keeps its digits") {
  // 0.01 four million times: late terms of one float sum would lose a fifth of themselves.
  Tensor x = full({1 << 22}, 0.1);
  double loss = mse_loss(x, zeros({1 << 22})).item<double>(), exact = std::pow(0.1f, 2.0);
  // The square, 15 additions in a block and the result are rounded to float.
  CHECK(std::abs(loss / exact - 1) <= 17 * epsilon(Dtype::float32) / 2);
}

TEST_CASE("mse_loss: results do not depend on the number of threads") {
  auto bits = [] {
    Tensor x = uniform({100001}, -2, 2, RandomKey{1}).set_requires_grad();
    Tensor loss = mse_loss(x, uniform({100001}, -2, 2, RandomKey{2}));
    backward(loss);
    return std::pair(loss.item<float>(), x.grad().to_vector<float>());
  };
  int threads = num_threads();
  set_num_threads(1);
  auto one = bits();
  set_num_threads(3);
  auto three = bits();
  set_num_threads(threads);
  CHECK((one == three));
}

}  // namespace brim
