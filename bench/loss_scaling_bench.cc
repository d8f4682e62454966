// What a loss scaler adds to a float16 step: pairs of runs of a few steps each, with a scaler and
// without, one after the other, the order changing; the median of the ratios with its 95% interval
// by order statistics. Both train the same model on the same bytes. The scale stays at 1, so that
// both compute with the same numbers.
#include <fmt/format.h>

#include <string>

#include "brim/bench/timing.h"
#include "brim/brim.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/flag_values.h"
#include "brim/apps/support/program.h"

namespace {

using namespace brim;

struct Options {
  std::string model = "resnet20";
  int64_t size = 32, batch = 32, steps = 5;  ///< of one run
  int pairs = 41;
};

void compare(const Options& o) {
  auto model = nn::make_model(o.model, {.classes = 10});
  optim::Sgd sgd(model->named_parameters(), {.momentum = 0.9});
  const data::SyntheticBatch batch =
      data::make_synthetic({.count = o.batch, .size = static_cast<int>(o.size), .classes = 10});
  const HostBatch host{batch.pixels, batch.labels, batch.size};
  // At its floor, where an overflow is an error; it would grow after more updates than these.
  optim::LossScaler scaler({.initial = 1, .growth_interval = 1 << 30});
  TrainStep bare(*model, sgd, {.precision = Dtype::float16}),
      scaled(*model, sgd, {.precision = Dtype::float16, .scaler = &scaler});
  auto run = [&](TrainStep& step) {
    for (int64_t i = 0; i < o.steps; ++i)
      step.run(1e-3, [&] { return training_loss(*model, host.upload(Device::cpu()), {}); },
               {.samples = o.batch});
  };
  run(bare), run(scaled);  // warm
  const auto [ratio, bare_seconds] = bench::in_pairs(
      o.pairs, [&] { run(bare); }, [&] { run(scaled); });
  fmt::print(
      "{} {}x{}, batch {}, float16: {:.2f} ms a step; with a scaler / without: median {:.4f}, 95% "
      "interval {:.4f} to {:.4f}, {} pairs of {} steps\n",
      o.model, o.size, o.size, o.batch, 1e3 * bare_seconds / static_cast<double>(o.pairs * o.steps),
      ratio.median, ratio.low, ratio.high, o.pairs, o.steps);
}

}  // namespace

int main(int argc, char** argv) {
  apps::App app("What a loss scaler adds to a step.", "loss_scaling_bench");
  Options options;
  app.add_option("--model", options.model).shows_default();
  app.add_option("--size", options.size).shows_default();
  app.add_option("--batch", options.batch).shows_default();
  app.add_option("--steps", options.steps).shows_default().check(apps::whole_number(1));
  app.add_option("--pairs", options.pairs).shows_default().check(apps::whole_number(1));
  return apps::run_program(app, argc, argv, [&] { compare(options); });
}
