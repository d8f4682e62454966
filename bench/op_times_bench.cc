// How good predicted times are: for a model, the seconds of each kind of op in a training step by
// the roofline of a nominal device and of this one, beside the same ops timed one by one; then the
// whole step by each of them and as it ran. What counts for plans is that the ratios of a column
// are near each other, not that they are near 1.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "brim/bench/timing.h"
#include "brim/brim.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/program.h"
#include "brim/train/calibration.h"
#include "brim/train/measured_speed.h"
#include "brim/train/recompute_plan.h"

namespace {

using namespace brim;

struct Options {
  std::string model = "resnet50";
  int size = 224, steps = 5, repeats = 5;
  int64_t batch = 8;
  double quantile = 0.5;
  bool fresh = false;
};

struct Kind {
  int runs = 0;
  double measured = 0, nominal = 0, calibrated = 0;
};

RehearsalOptions training_of(const Options& o) {
  return {.make_model = [o] { return nn::make_model(o.model, {.device = Device::meta()}); },
          .make_updating =
              [](nn::Module& model) {
                return Updating{std::make_unique<optim::Sgd>(model.named_parameters(),
                                                             optim::SgdOptions{.momentum = 0.9}),
                                nullptr};
              },
          .trainer = {.steps = 1, .in_place = false},
          .size = o.size,
          .batch = o.batch};
}

/// What runs in one update.
SeenRuns runs_of(const RehearsalOptions& training) {
  OpRuns observer(/*keeps_calls=*/true);
  measure_on_meta(memory::planner_named("direct"), [&](const auto& state_is_held) {
    rehearse(training, [&] {
      observer.clear();
      state_is_held();
    });
  });
  return observer.take();
}

double real_step(const Options& o) {
  const data::SyntheticBatch images =
      data::make_synthetic({.count = o.batch, .size = o.size, .classes = 1000});
  const HostBatch host{images.pixels, images.labels, images.size};
  auto model = nn::make_model(o.model, {});
  optim::Sgd sgd(model->named_parameters(), {.momentum = 0.9});
  TrainStep step(*model, sgd, {.in_place = false});
  std::vector<double> times;
  for (int i = -1; i < o.steps; ++i) {
    const double took = bench::seconds_of([&] {
      step.run(0, [&] { return training_loss(*model, host.upload(Device::cpu()), {}); },
               {.samples = o.batch});
    });
    if (i >= 0) times.push_back(took);
  }
  return bench::median(times);
}

void print_row(const std::string& name, const Kind& kind) {
  fmt::print("{:<34}{:>6}{:>12.3f}{:>12.3f}{:>8.2f}{:>12.3f}{:>8.2f}\n", name, kind.runs,
             1e3 * kind.measured, 1e3 * kind.nominal, kind.nominal / kind.measured,
             1e3 * kind.calibrated, kind.calibrated / kind.measured);
}

void print_speed(const DeviceSpeed& speed) {
  fmt::print("{:.1f} GFLOP/s, {:.1f} GB/s, {:.2f} us an op\n", speed.flops_per_second / 1e9,
             speed.bytes_per_second / 1e9, speed.seconds_per_op * 1e6);
  for (const auto& [op, rates] : speed.of_ops)
    fmt::print("  {:<22}{:>8.1f} GFLOP/s{:>8.1f} GB/s\n", op, rates.flops_per_second / 1e9,
               rates.bytes_per_second / 1e9);
}

/// Convolutions that wait for arithmetic and those that wait for traffic are two kinds.
std::string kind_of(const OpRun& run) {
  const std::string name = run_name(run.op, run.phase);
  if (run.op != "conv2d") return name;
  const DeviceSpeed nominal;
  const bool is_dense = run.flops / nominal.flops_per_second >
                        static_cast<double>(run.bytes_moved) / nominal.bytes_per_second;
  return name + (is_dense ? ", dense" : ", thin");
}

/// What recomputation would pay, had it to make everything again.
void print_replays(RehearsalOptions training,
                   const std::vector<std::pair<const char*, OpTimes>>& all_times) {
  for (const auto& [name, times] : all_times) {
    training.op_times = times;
    double forward = 0, replay = 0;
    for (const auto& op : record_step(training).graph.ops)
      forward += op.seconds, replay += op.replay_seconds;
    fmt::print("{}: forward {:.3f} ms, all of it again {:.3f} ms\n", name, 1e3 * forward,
               1e3 * replay);
  }
}

void report(const Options& o) {
  const DeviceSpeed speed = (o.fresh ? measured_speed() : calibrated_speed()).speed;
  print_speed(speed);
  const RehearsalOptions training = training_of(o);
  const SeenRuns seen = runs_of(training);
  auto measured =
      std::make_shared<MeasuredOps>(TimingOptions{.repeats = o.repeats, .quantile = o.quantile});
  measured->measure(seen.calls);
  for (const std::string& why : measured->left_out()) fmt::print("not timed: {}\n", why);
  const OpTimes nominal, calibrated{.speed = speed}, real{.speed = speed, .measured = measured};
  std::map<std::string, Kind> kinds;
  Kind all;
  auto add = [&](const OpRun& run) {
    for (Kind* kind : {&kinds[kind_of(run)], &all}) {
      ++kind->runs;
      kind->measured += real.seconds(run);
      kind->nominal += nominal.seconds(run);
      kind->calibrated += calibrated.seconds(run);
    }
  };
  for (const OpRun& run : seen.runs) add(run);
  fmt::print("\n{:<34}{:>6}{:>12}{:>12}{:>8}{:>12}{:>8}\n", "milliseconds of a step", "runs",
             "measured", "nominal", "ratio", "calibrated", "ratio");
  for (const auto& [name, kind] : kinds) print_row(name, kind);
  print_row("all ops", all);
  print_replays(training, {{"measured", real}, {"nominal", nominal}, {"calibrated", calibrated}});
  if (o.steps == 0) return;
  const double step = real_step(o);
  fmt::print(
      "the step as it runs: {:.3f} ms; predicted of it: {:.2f} measured, {:.2f} nominal, "
      "{:.2f} calibrated\n",
      1e3 * step, all.measured / step, all.nominal / step, all.calibrated / step);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  apps::App app("Predicted and measured seconds of the ops of a training step.",
                    "op_times_bench");
  app.add_option("--model", options.model).shows_default();
  app.add_option("--size", options.size).shows_default();
  app.add_option("--batch", options.batch).shows_default();
  app.add_option("--steps", options.steps, "whole steps that are timed; 0 for none")
      .shows_default();
  app.add_option("--repeats", options.repeats, "timed runs of each op").shows_default();
  app.add_option("--quantile", options.quantile, "of them that counts; 0: the fastest")
      .shows_default();
  app.add_flag("--fresh", options.fresh, "measure this machine now and keep nothing");
  return apps::run_program(app, argc, argv, [&] { report(options); });
}
