// Where the times of a training's ops come from: what each run computes and moves, times of the
// very ops, and that plans follow from them and from nothing else. Clocks are the test's but for
// one case, which only asks that real ones give something.
#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/memory/account.h"
#include "brim/ops/batch_norm.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/normalized_conv2d.h"
#include "brim/ops/relu.h"
#include "brim/tests/support/temp_folder.h"
#include "brim/tests/train/planned_training.h"
#include "brim/tests/train/small_net.h"
#include "brim/train/calibration.h"
#include "brim/train/predicted_time.h"
#include "brim/train/recompute_plan.h"

using namespace brim;
using namespace brim::testing;
using memory::Phase;

namespace {

Tensor leaf(const Shape& shape, bool requires_grad = true) {
  return empty(shape, {.device = Device::meta()}).set_requires_grad(requires_grad);
}

/// Forward and backward of what `compute` gives, on the meta device.
template <class Compute>
SeenRuns runs_of(const Compute& compute) {
  OpRuns observer(/*keeps_calls=*/true);
  Tensor result = compute();
  backward(result, {.grad = empty_like(result)});
  return observer.take();
}

RehearsalOptions small_training() {
  return {.make_model = [] { return std::make_shared<SmallNet>(); },
          .make_updating =
              [](nn::Module& model) {
                return Updating{std::make_unique<optim::Sgd>(model.named_parameters(),
                                                             optim::SgdOptions{.momentum = 0.9}),
                                nullptr};
              },
          .trainer = {.steps = 1},
          .size = 16,
          .batch = 8};
}

/// Each look at it is a second after the last.
TimingOptions ticking(int64_t capacity = memory::host_memory()) {
  auto time = std::make_shared<double>(0);
  return {.capacity = capacity, .now = [time] { return *time += 1; }};
}

OpTimes timed(TimingOptions options) {
  return {.measured = std::make_shared<MeasuredOps>(std::move(options))};
}

int64_t bytes(const Shape& shape) { return numel(shape) * 4; }

}  // namespace

TEST_CASE("batch norm sweeps thrice, again twice, and back thrice") {
  const Shape shape{8, 16, 16, 64}, channels{64};
  const SeenRuns seen =
      runs_of([&] { return batch_norm(leaf(shape), leaf(channels), leaf(channels), {}, {}); });
  REQUIRE(seen.runs.size() == 2);
  REQUIRE(seen.calls.size() == 1);
  const OpRun replay = replay_of(seen.calls.begin()->second, seen.runs[0]);
  CHECK(replay.phase == Phase::recompute);
  auto sweeps = [&](const OpRun& run) {
    return static_cast<double>(run.bytes_moved) / static_cast<double>(bytes(shape));
  };
  // Statistics and parameters of the channels are the rest.
  CHECK(sweeps(seen.runs[0]) == doctest::Approx(3).epsilon(0.01));
  CHECK(sweeps(replay) == doctest::Approx(2).epsilon(0.01));
  CHECK(sweeps(seen.runs[1]) == doctest::Approx(3).epsilon(0.01));
  // Its vectors add no pass of their own to backward.
  CHECK(seen.runs[1].flops == seen.runs[0].flops);
}

TEST_CASE("a convolution goes back once for each large gradient that is wanted") {
  const Shape x{2, 8, 8, 4}, weight{16, 3, 3, 4}, y{2, 8, 8, 16};
  for (bool first : {true, false}) {
    const SeenRuns seen =
        runs_of([&] { return conv2d(leaf(x, !first), leaf(weight), leaf({16}), {.padding = 1}); });
    REQUIRE(seen.runs.size() == 2);
    CHECK(seen.runs[0].op == std::string("conv2d"));
    CHECK(seen.runs[1].phase == Phase::backward);
    CHECK(seen.runs[1].flops == seen.runs[0].flops * (first ? 1 : 2));
    CHECK(seen.runs[0].bytes_moved == bytes(x) + bytes(weight) + bytes({16}) + bytes(y));
    const OpRun replay = replay_of(seen.calls.begin()->second, seen.runs[0]);
    CHECK(replay.bytes_moved == seen.runs[0].bytes_moved);
  }
}

TEST_CASE("what a call does once, and what it starts from, is no part of what runs again") {
  const Shape x{4, 16, 16, 32}, weight{24, 1, 1, 32}, y{4, 16, 16, 24}, channels{32};
  const TensorOptions statistics{.dtype = Dtype::float64, .device = Device::meta()};
  const SeenRuns seen = runs_of([&] {
    const BatchNormArguments norm{
        .weight = leaf(channels),
        .bias = leaf(channels),
        .running_mean = leaf(channels, false),
        .running_var = leaf(channels, false),
        .options = {.mean = empty(channels, statistics), .variance = empty(channels, statistics)}};
    return normalized_conv2d(leaf(x), norm, leaf(weight), {}).y;
  });
  const OpRun replay = replay_of(seen.calls.begin()->second, seen.runs[0]);
  // The norm's weight and bias are float32, its mean and variance float64.
  const int64_t read = bytes(x) + bytes(weight) + 2 * bytes(channels) + 2 * 2 * bytes(channels);
  CHECK(replay.bytes_moved == read + bytes(y));
  // Mean and variance of y in float64; those of x again, and both running ones, moved.
  CHECK(seen.runs[0].bytes_of_effects > 0);
  CHECK(seen.runs[0].bytes_moved ==
        replay.bytes_moved + 2 * 2 * bytes({24}) + seen.runs[0].bytes_of_effects);
}

TEST_CASE("halves that are widened take the time of their copies on top") {
  const Shape shape{8, 16, 16, 64};
  auto run_of = [&](Dtype dtype) {
    const TensorOptions options{.dtype = dtype, .device = Device::meta()};
    return runs_of([&] { return relu(empty(shape, options).set_requires_grad(true)); }).runs[0];
  };
  const OpRun wide = run_of(Dtype::float32), half = run_of(Dtype::bfloat16);
  CHECK(wide.bytes_widened == 0);
  CHECK(half.bytes_moved == wide.bytes_moved / 2);
  CHECK(half.bytes_widened == wide.bytes_moved);
  const OpTimes times{.speed = {.bytes_per_second = 1, .seconds_per_op = 0}};
  CHECK(times.seconds(half) == times.seconds(wide) * 1.5);
}

TEST_CASE("calls of the same shapes are one; other shapes or wanted gradients are others") {
  auto conv = [](int64_t batch, bool wants_x) {
    return conv2d(leaf({batch, 8, 8, 4}, wants_x), leaf({16, 3, 3, 4}), {});
  };
  auto key = [&](int64_t batch, bool wants_x, size_t run) {
    return runs_of([&] { return conv(batch, wants_x); }).runs[run].key;
  };
  CHECK(key(2, true, 0) == key(2, true, 0));
  CHECK(key(2, true, 0) == key(2, false, 0));  // forward is the same
  CHECK(key(2, true, 1) != key(2, false, 1));
  CHECK(key(2, true, 0) != key(3, true, 0));
}

TEST_CASE("rates of an op are its own, and forward's where it runs again") {
  DeviceSpeed speed{.flops_per_second = 100, .bytes_per_second = 10, .seconds_per_op = 1};
  CHECK(roofline_seconds("relu", Phase::forward, 1000, 10, speed) == 11);
  CHECK(roofline_seconds("relu", Phase::forward, 100, 50, speed) == 6);
  speed.of_ops["conv2d forward"] = {.flops_per_second = 1000, .bytes_per_second = 1};
  CHECK(roofline_seconds("relu", Phase::forward, 1000, 10, speed) == 11);
  CHECK(roofline_seconds("conv2d", Phase::forward, 4000, 3, speed) == 5);
  CHECK(roofline_seconds("conv2d", Phase::recompute, 4000, 3, speed) == 5);
  CHECK(roofline_seconds("conv2d", Phase::backward, 4000, 3, speed) == 41);
  CHECK(roofline_seconds(4000, 3, speed) == 41);
}

TEST_CASE("measured, every op of a small net takes time, forward, again and back") {
  RehearsalOptions training = small_training();
  training.op_times = timed({});
  const RecordedStep step = record_step(training);
  CHECK(training.op_times.measured->left_out().empty());
  CHECK(training.op_times.measured->timed() > 0);
  REQUIRE(!step.graph.ops.empty());
  for (const auto& op : step.graph.ops) {
    CHECK(op.seconds > 0);
    CHECK(op.replay_seconds > 0);
  }
  for (const auto& back : step.graph.steps) CHECK(back.seconds > 0);
  memory::check_graph(step.graph);
}

TEST_CASE("seconds of a graph are those that were measured, each kind of call once") {
  RehearsalOptions training = small_training();
  training.op_times = timed(ticking());
  const RecordedStep step = record_step(training);
  // Between two looks at the clock is one run. An op of the graph may be several calls.
  double seconds = 0;
  for (const auto& op : step.graph.ops) {
    CHECK(op.seconds >= 1);
    CHECK(op.replay_seconds == op.seconds);
    seconds += op.seconds;
  }
  CHECK(seconds == static_cast<double>(step.values.size()));
  for (const auto& back : step.graph.steps) CHECK(back.seconds == 1);
  const int64_t calls = training.op_times.measured->timed();
  CHECK(calls <= std::ssize(step.values));
  record_step(training);
  CHECK(training.op_times.measured->timed() == calls);
  // A whole update: as many seconds as ops, and what the optimizer's kernels take.
  const double runs = seconds + static_cast<double>(step.graph.steps.size());
  const double whole = predicted_seconds(training);
  CHECK(whole >= runs);
  CHECK(whole < runs + 1.1);  // the images, made of bytes, are no recorded call
  CHECK(training.op_times.measured->timed() == calls);
}

TEST_CASE("what does not fit the capacity is estimated, and holds nothing") {
  RehearsalOptions training = small_training();
  const RecordedStep nominal = record_step(training);
  training.op_times = timed(ticking(/*capacity=*/64));
  const RecordedStep step = record_step(training);
  CHECK(training.op_times.measured->timed() == 0);
  CHECK(!training.op_times.measured->left_out().empty());
  REQUIRE(step.graph.ops.size() == nominal.graph.ops.size());
  for (size_t i = 0; i < step.graph.ops.size(); ++i) {
    CHECK(step.graph.ops[i].seconds == nominal.graph.ops[i].seconds);
    CHECK(step.graph.ops[i].replay_seconds == nominal.graph.ops[i].replay_seconds);
  }
}

TEST_CASE("timing uses an account of its own and leaves the graph's bytes as they are") {
  auto account = memory::capped_host_account("direct", 64);
  memory::AccountScope scope(account);
  RehearsalOptions training = small_training();
  const RecordedStep nominal = record_step(training);
  training.op_times = timed(ticking());
  const RecordedStep step = record_step(training);
  CHECK(account->stats().requests == 0);
  CHECK(training.op_times.measured->left_out().empty());
  CHECK(step.graph.fixed_bytes == nominal.graph.fixed_bytes);
  for (size_t i = 0; i < step.graph.ops.size(); ++i) {
    CHECK(step.graph.ops[i].scratch == nominal.graph.ops[i].scratch);
    CHECK(step.graph.ops[i].replay_scratch == nominal.graph.ops[i].replay_scratch);
  }
}

TEST_CASE("the ops of models can all be timed") {
  for (const char* model : {"mobilenet_v3_large", "resnet18"}) {
    CAPTURE(model);
    RehearsalOptions training = rehearsal_options({model, 64, 2});
    training.op_times = timed(ticking());
    record_step(training);
    CHECK(training.op_times.measured->timed() > 10);
    for (const std::string& why : training.op_times.measured->left_out()) CHECK(why == "");
  }
}

TEST_CASE("options out of range are refused") {
  const SeenRuns seen = runs_of([&] { return relu(leaf({4})); });
  const OpCall& call = seen.calls.begin()->second;
  CHECK_THROWS_AS(time_call(call, {.repeats = 0}), ValueError);
  CHECK_THROWS_AS(time_call(call, {.quantile = 1.5}), ValueError);
}

TEST_CASE("the median of the runs counts, or another of them, the first left out") {
  const SeenRuns seen = runs_of([&] { return relu(leaf({4})); });
  const OpCall& call = seen.calls.begin()->second;
  // Pairs of looks at the clock: a slow first run, then 3, 1, 2 seconds; forward, then backward.
  auto seconds = [&](double quantile) {
    auto look = std::make_shared<size_t>(0);
    return time_call(call, {.repeats = 3, .quantile = quantile, .now = [look] {
                              constexpr double kLooks[] = {0, 9, 10, 13, 20, 21, 30, 32};
                              return kLooks[(*look)++ % 8];
                            }});
  };
  CHECK(seconds(0.5).forward == 2);
  CHECK(seconds(0).forward == 1);
  CHECK(seconds(1).forward == 3);
  CHECK(seconds(0.5).backward == 2);
  CHECK(seconds(0.5).replay == 2);
}

TEST_CASE("the same file gives the same plan; no identity follows from a speed") {
  const TrainingCase c{"resnet20", 32, 8};
  TrainingSetup setup{rehearsal_options(c), "arena"};
  const int64_t most = predicted_memory(setup).peak_reserved;
  TempFolder folder;
  auto speed_in_file = [&](double factor) {
    auto measure = [factor] {
      return MeasuredSpeed{
          {.bytes_per_second = factor * 1.1e10, .of_ops = {{"conv2d forward", {3e11, 2e10}}}}};
    };
    return calibrated_speed(Device::cpu(), {.folder = folder.path(), .measure = measure}).speed;
  };
  auto plan = [&](const DeviceSpeed& speed) {
    setup.rehearsal.op_times.speed = speed;
    return choose_recomputation(setup, most * 6 / 10);
  };
  const std::string nominal_identity = plan_identity(setup.rehearsal);
  const RecomputeChoice first = plan(speed_in_file(1)), again = plan(speed_in_file(2));
  CHECK(first.fits);
  CHECK(first.dropped > 0);
  CHECK(first.recompute.name == again.recompute.name);
  CHECK(first.plan.fates == again.plan.fates);
  CHECK(first.plan.seconds == again.plan.seconds);
  CHECK(plan_identity(setup.rehearsal) == nominal_identity);
  // Were batch norm dear to make again and convolutions nearly free, other values would be dropped.
  const RecomputeChoice other = plan({.of_ops = {{"batch_norm recompute", {1, 1}},
                                                 {"relu recompute", {1, 1}},
                                                 {"conv2d recompute", {1e15, 1e15}}}});
  CHECK(other.fits);
  CHECK(other.recompute.name != first.recompute.name);
}
