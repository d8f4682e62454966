// What a device judges of a recorded update is what the host judges of another: whether it takes
// place, the norm and the factor of the clip, bit by bit. Where it does not, no number changes.
#include "brim/optim/judge.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "brim/base/cuda/devices.h"
#include "brim/optim/adamw.h"
#include "brim/optim/ema.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/cuda_skip.h"

using namespace brim;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The CPU, and a GPU where there is one, emulated or not.
std::vector<Device> devices() {
  if (testing::skipped_on_cuda("optimizers")) return {Device::cpu()};
  return {Device::cpu(), Device::cuda()};
}

Tensor number_on(Device device, double value) {
  return full({1}, value, {.dtype = Dtype::float64, .device = device});
}

struct Judged {
  bool applied;
  double norm, factor, rest;
};

Judged judged(Device device, const std::vector<double>& sums, double loss, double limit) {
  optim::StepScalars scalars("judge_test", device);
  scalars.write({.rate = 0.1, .clip_norm = limit});
  const Tensor verdict =
                   zeros({optim::kVerdictNumbers}, {.dtype = Dtype::float64, .device = device}),
               rest = number_on(device, 0.25);
  const Tensor squares = convert_to(from_vector<double>(sums, {std::ssize(sums)}),
                                    {.dtype = Dtype::float64, .device = device});
  launch(kernel::judge_update, Dtype::float64, {squares, number_on(device, loss)},
         {scalars.buffer(), verdict, rest});
  const auto numbers = verdict.to_vector<double>(), set = scalars.buffer().to_vector<double>();
  CHECK((set[optim::StepScalars::kApplied] != 0) == (numbers[optim::kVerdictApplied] != 0));
  CHECK(set[optim::StepScalars::kRate] == 0.1);
  return {numbers[optim::kVerdictApplied] != 0, numbers[optim::kVerdictNorm],
          set[optim::StepScalars::kClipFactor], rest.to_vector<double>()[0]};
}

}  // namespace

TEST_CASE("an update is applied where the loss and all gradients are finite") {
  for (Device device : devices()) {
    CAPTURE(to_string(device));
    const Judged fine = judged(device, {9, 0, 16}, -3, kInfinity);
    CHECK(fine.applied);
    CHECK(fine.norm == 5);
    CHECK(fine.factor == 1);
    CHECK(fine.rest == 0.25);
    for (double loss : {kNan, kInfinity, -kInfinity}) {
      const Judged lost = judged(device, {9, 16}, loss, kInfinity);
      CHECK(!lost.applied);
      CHECK(lost.rest == 0);
    }
    const Judged overflowed = judged(device, {9, kNan, 16}, 1, 2);
    CHECK(!overflowed.applied);
    CHECK(std::isnan(overflowed.norm));
    CHECK(overflowed.rest == 0);
    // Squares of finite float64 gradients may overflow: the host applies that too, clipped to 0.
    const Judged huge = judged(device, {9, kInfinity}, 1, 2);
    CHECK(huge.applied);
    CHECK(huge.factor == 0);
    CHECK(judged(device, {kInfinity}, 1, kInfinity).factor == 1);
  }
}

TEST_CASE("the norm and the factor of the clip have the host's bits") {
  std::vector<double> sums;
  for (int i = 1; i <= 161; ++i) sums.push_back(1.0 / i);
  for (Device device : devices())
    for (double limit : {0.1, 2.0, 3.0, 1e9}) {
      CAPTURE(to_string(device));
      CAPTURE(limit);
      double total = 0;
      for (double sum : sums) total += sum;
      const double norm = std::sqrt(total);
      const Judged here = judged(device, sums, 1, limit);
      CHECK(here.norm == norm);
      CHECK(here.factor == std::min(1.0, limit / (norm + 1e-6)));
    }
}

TEST_CASE("an update that was judged not to take place changes nothing on a GPU") {
  for (Device device : devices()) {
    if (!device.is_cuda()) continue;  // no update is recorded there
    for (const char* kind : {"sgd", "adamw"}) {
      CAPTURE(kind);
      const TensorOptions there{.device = device};
      Tensor p = uniform({1000}, -1, 1, RandomKey{1}, there).set_requires_grad();
      std::unique_ptr<optim::Optimizer> optimizer;
      if (std::string(kind) == "sgd")
        optimizer = std::make_unique<optim::Sgd>(std::vector<nn::NamedTensor>{{"p", p}},
                                                 optim::SgdOptions{.momentum = 0.9});
      else
        optimizer = std::make_unique<optim::AdamW>(std::vector<nn::NamedTensor>{{"p", p}});
      auto values = [&] {
        std::vector<double> all = p.to_vector<double>();
        for (const nn::NamedTensor& state : optimizer->named_state())
          for (double x : state.tensor.to_vector<double>()) all.push_back(x);
        return all;
      };
      auto prepare = [&](double loss) {
        p.set_grad(uniform({1000}, -1, 1, RandomKey{2}, there));
        optimizer->prepare({.rate = 0.1});
        optimizer->judge_on_device(
            number_on(device, loss),
            zeros({optim::kVerdictNumbers}, {.dtype = Dtype::float64, .device = device}), {});
        optimizer->commit();
      };
      prepare(1);  // state is not zero
      const std::vector<double> before = values();
      prepare(kNan);
      CHECK(values() == before);
      prepare(1);
      CHECK(values() != before);
    }
  }
}

TEST_CASE("an average that moves by a share of 0 stays as it is, whatever the value") {
  for (Device device : devices()) {
    const TensorOptions there{.device = device};
    const Tensor average = full({5}, 3, there);
    launch(kernel::ema, Dtype::float32, {full({5}, kNan, there), number_on(device, 0)}, {average});
    CHECK(average.to_vector<float>() == std::vector<float>(5, 3.f));
    launch(kernel::ema, Dtype::float32, {full({5}, 7, there), number_on(device, 1)}, {average});
    CHECK(average.to_vector<float>() == std::vector<float>(5, 7.f));
  }
}

TEST_CASE("a piece of an update takes place where the loss and what came before it are finite") {
  struct Step {
    double number;
    optim::PieceJudged judged;
    bool applied;
    int64_t pieces;
  };
  using enum optim::PieceJudged;
  const std::vector<std::vector<Step>> updates{
      {{2, loss, true, 0},
       {4, gradient, true, 1},
       {5, updated, true, 2},
       {kInfinity, updated, true, 3}},
      {{2, loss, true, 0},
       {kNan, gradient, false, 0},
       {4, updated, false, 0},
       {4, gradient, false, 0}},
      {{2, loss, true, 0},
       {4, gradient, true, 1},
       {kNan, updated, false, 2},
       {4, updated, false, 2}},
      {{kNan, loss, false, 0}, {4, gradient, false, 0}, {4, updated, false, 0}},
      {{-kInfinity, loss, false, 0}, {4, gradient, false, 0}}};
  for (Device device : devices()) {
    CAPTURE(to_string(device));
    optim::StepScalars scalars("judge_test", device);
    scalars.write({.rate = 0.1});
    const Tensor verdict =
        full({optim::kVerdictNumbers}, 7, {.dtype = Dtype::float64, .device = device});
    for (const auto& update : updates)
      for (const Step& step : update) {
        CAPTURE(step.number);
        launch(kernel::judge_piece, Dtype::float64, {number_on(device, step.number)},
               {scalars.buffer(), verdict}, {.judged = step.judged});
        const auto set = scalars.buffer().to_vector<double>(), left = verdict.to_vector<double>();
        CHECK((set[optim::StepScalars::kApplied] != 0) == step.applied);
        CHECK(set[optim::StepScalars::kRate] == 0.1);
        CHECK(left[optim::kVerdictPieces] == static_cast<double>(step.pieces));
        CHECK(left[optim::kVerdictNorm] == 7);
      }
  }
}
