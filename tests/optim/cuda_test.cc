// Updates on a GPU are those of the CPU. Without a GPU they run where kernels are emulated.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "brim/base/cuda/devices.h"
#include "brim/nn/creation.h"
#include "brim/nn/linear.h"
#include "brim/optim/adamw.h"
#include "brim/optim/ema.h"
#include "brim/optim/sgd.h"

using namespace brim;

namespace {

constexpr int kSteps = 4;

// Says so and returns true where there is no GPU.
bool skipped() {
  std::string why = cuda::why_no_device();
  if (!why.empty()) MESSAGE("skipped: optimizers on CUDA (", why, ")");
  return !why.empty();
}

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
    optimizer->step({.rate = 0.1, .loss_scale = 4, .clip = {.norm = 20, .value = 0.4}});
    result.norm = optimizer->gradient_norm().value();
  }
  result.parameter = p.to_vector<double>();
  for (const nn::NamedTensor& state : optimizer->named_state())
    for (double x : state.tensor.to_vector<double>()) result.state.push_back(x);
  return result;
}

/// As far apart as the last bits of pow and of sums in another order make them.
void check_near(const std::vector<double>& got, const std::vector<double>& expected, double bits) {
  REQUIRE(got.size() == expected.size());
  double most = 0;
  for (size_t i = 0; i < got.size(); ++i)
    most = std::max(most, std::abs(got[i] - expected[i]) / (1e-3 + std::abs(expected[i])));
  CHECK(most <= bits);
}

void check_alike(Dtype dtype, double bits, const MakeOptimizer& make) {
  const Trained here = trained_on(Device::cpu(), dtype, make);
  const Trained there = trained_on(Device::cuda(), dtype, make);
  check_near(there.parameter, here.parameter, bits);
  check_near(there.state, here.state, bits);
  CHECK(std::abs(there.norm - here.norm) < 1e-6 * here.norm);
}

}  // namespace

TEST_CASE("cuda: sgd and adamw update as on the CPU") {
  if (skipped()) return;
  for (Dtype dtype : {Dtype::float32, Dtype::float64}) {
    const double bits = dtype == Dtype::float32 ? 1e-6 : 1e-14;
    for (const optim::SgdOptions& options : {optim::SgdOptions{},
                                             {.momentum = 0.9, .weight_decay = 0.01},
                                             {.momentum = 0.9, .nesterov = true}})
      check_alike(dtype, bits, [&](auto parameters) {
        return std::make_unique<optim::Sgd>(std::move(parameters), options);
      });
    check_alike(dtype, 4 * bits, [](auto parameters) {
      return std::make_unique<optim::AdamW>(std::move(parameters));
    });
  }
}

TEST_CASE("cuda: state and parameters in bfloat16 are rounded as on the CPU") {
  if (skipped()) return;
  const auto sgd = [](auto parameters) {
    return std::make_unique<optim::Sgd>(
        std::move(parameters),
        optim::SgdOptions{.momentum = 0.9, .state = Dtype::bfloat16, .seed = 7});
  };
  // A sum of squares in another order may move the factor of clipping by a bit, and so a rounding.
  check_alike(Dtype::float32, 1e-2, sgd);
  check_alike(Dtype::bfloat16, 2e-2, sgd);
}

TEST_CASE("cuda: a gradient that is not finite is found, and the update refused") {
  if (skipped()) return;
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
  if (skipped()) return;
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
