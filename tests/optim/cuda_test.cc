// Updates on a GPU are those of the CPU. Without a GPU they run where kernels are emulated.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "brim/base/cuda/devices.h"
#include "brim/base/gathered.h"
#include "brim/nn/creation.h"
#include "brim/nn/linear.h"
#include "brim/optim/adamw.h"
#include "brim/optim/ema.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/cuda_skip.h"

using namespace brim;

namespace {

constexpr int kSteps = 4;
constexpr double kRate = 0.1;
constexpr int64_t kElements = 3 * 700;

using MakeOptimizer =
    std::function<std::unique_ptr<optim::Optimizer>(std::vector<nn::NamedTensor>)>;

/// The parameter after some updates, and the norm of the last gradient.
struct Trained {
  std::vector<double> parameter, state;
  double norm = 0;
};

Trained trained_on(Device device, Dtype dtype, const MakeOptimizer& make) {
  const auto there = [&](const Tensor& t, Dtype d) { return convert_to(t, {d, device}); };
  Tensor p = there(uniform({3, 700}, -1, 1, RandomKey{5}), dtype);
  p.set_requires_grad();
  const std::unique_ptr<optim::Optimizer> optimizer = make({{"p", p}});
  Trained result;
  for (uint64_t step = 0; step < kSteps; ++step) {
    p.set_grad(there(uniform({3, 700}, -2, 2, RandomKey{100 + step}), dtype));
    optimizer->step({.rate = kRate, .loss_scale = 4, .clip = {.value = 0.4}});
    result.norm = optimizer->gradient_norm().value();
  }
  result.parameter = p.to_vector<double>();
  for (const nn::NamedTensor& state : optimizer->named_state())
    for (double x : state.tensor.to_vector<double>()) result.state.push_back(x);
  return result;
}

/// State has the same bits; a parameter may be `apart`. Sums of squares are the same terms in
/// another order: each addition rounds once, of no more than the sum.
void check_alike(Dtype dtype, double apart, const MakeOptimizer& make) {
  const Trained here = trained_on(Device::cpu(), dtype, make);
  const Trained there = trained_on(Device::cuda(), dtype, make);
  CHECK(there.state == here.state);
  REQUIRE(there.parameter.size() == here.parameter.size());
  double most = 0;
  for (size_t i = 0; i < here.parameter.size(); ++i)
    most = std::max(most, std::abs(there.parameter[i] - here.parameter[i]));
  CHECK(most <= apart);
  CHECK(std::abs(there.norm - here.norm) <= kElements * 0x1p-52 * here.norm);
}

}  // namespace

TEST_CASE("cuda: sgd updates with the bits of the CPU") {
  if (testing::skipped_on_cuda("optimizers")) return;
  for (Dtype dtype : {Dtype::float32, Dtype::float64})
    for (const optim::SgdOptions& options : {optim::SgdOptions{},
                                             {.momentum = 0.9, .weight_decay = 0.01},
                                             {.momentum = 0.9, .nesterov = true}})
      check_alike(dtype, 0, [&](auto parameters) {
        return std::make_unique<optim::Sgd>(std::move(parameters), options);
      });
}

// The powers of the betas are double and may differ in their last bits, so what is made of them,
// the step and the root, may round to a neighbour. A direction, m / sqrt(v), is at most (1 - beta1)
// / sqrt(1 - beta2) = 3.2; the parameter, below 2, is rounded once more.
TEST_CASE("cuda: adamw updates as the CPU does, but for the last bits of two numbers") {
  if (testing::skipped_on_cuda("optimizers")) return;
  for (Dtype dtype : {Dtype::float32, Dtype::float64}) {
    const double bit = dtype == Dtype::float32 ? 0x1p-23 : 0x1p-52;
    check_alike(dtype, kSteps * bit * (2 * 3.2 * kRate + 2), [](auto parameters) {
      return std::make_unique<optim::AdamW>(std::move(parameters));
    });
  }
}

TEST_CASE("cuda: state and parameters in bfloat16 are rounded with the bits of the CPU") {
  if (testing::skipped_on_cuda("optimizers")) return;
  const auto sgd = [](auto parameters) {
    return std::make_unique<optim::Sgd>(
        std::move(parameters),
        optim::SgdOptions{.momentum = 0.9, .state = Dtype::bfloat16, .seed = 7});
  };
  check_alike(Dtype::float32, 0, sgd);
  check_alike(Dtype::bfloat16, 0, sgd);
}

// Sizes around those of a block and of a kernel's arguments.
TEST_CASE("cuda: all parameters are updated by few kernels, with the bits of each by itself") {
  if (testing::skipped_on_cuda("optimizers")) return;
  auto updated_on = [](Device device) {
    std::vector<nn::NamedTensor> parameters;
    for (int64_t i = 0; i < 60; ++i) {
      const int64_t elements = i % 7 == 6 ? 0 : i % 5 == 4 ? 2047 + i % 3 : 1 + 37 * i;
      const auto there = [&](uint64_t key) {
        return convert_to(uniform({elements}, -1, 1, RandomKey{key}), {.device = device});
      };
      Tensor p = there(static_cast<uint64_t>(i));
      p.set_requires_grad();
      p.set_grad(there(1000 + static_cast<uint64_t>(i)));
      parameters.push_back({std::to_string(i), p});
    }
    optim::Sgd sgd(parameters, {.momentum = 0.9, .weight_decay = 0.01});
    const int64_t before = batches_started();
    sgd.step({.rate = kRate});
    if (device.is_cuda()) {
      const int64_t kernels = batches_started() - before;
      CHECK(kernels >= 1);
      CHECK(kernels <= 10);  // the emulator's arguments are small
    }
    std::vector<double> values;
    for (const nn::NamedTensor& named : parameters)
      for (double x : named.tensor.to_vector<double>()) values.push_back(x);
    return values;
  };
  CHECK(updated_on(Device::cuda()) == updated_on(Device::cpu()));
}

TEST_CASE("cuda: a gradient that is not finite is found, and the update refused") {
  if (testing::skipped_on_cuda("optimizers")) return;
  Tensor p = zeros({1000}, {.device = Device::cuda()}).set_requires_grad();
  optim::Sgd sgd({{"p", p}});
  Tensor bad = zeros({1000});
  bad.data<float>()[999] = std::numeric_limits<float>::infinity();
  p.set_grad(convert_to(bad, {.device = Device::cuda()}));
  CHECK(sgd.prepare_if_finite({.rate = 0.1}) == "p");
  p.set_grad(zeros({1000}, {.device = Device::cuda()}));
  CHECK(sgd.prepare_if_finite({.rate = 0.1}) == std::nullopt);
}

TEST_CASE("cuda: averages follow the weights and change places with them") {
  if (testing::skipped_on_cuda("optimizers")) return;
  nn::CreationScope creation({.device = Device::cuda()});
  nn::Linear linear(3, 2);
  nn::initialize(linear, 1);
  optim::Ema ema(linear, {.decay = 0.5});
  const std::vector<double> first = linear.weight.to_vector<double>();
  ema.update();
  copy_into(linear.weight, full({2, 3}, 1, {.device = Device::cuda()}));
  ema.update();
  const optim::EmaScope scope(ema);
  const std::vector<double> average = linear.weight.to_vector<double>();
  for (size_t i = 0; i < first.size(); ++i)
    CHECK(average[i] == doctest::Approx((first[i] + 1) / 2));
}
