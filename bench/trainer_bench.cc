// What `Trainer` adds to a step over the bare loop of `TrainStep`: pairs of runs of a few steps
// each, one after the other, the order changing; the median of the ratios with its 95% interval by
// order statistics. Both train the same model on the same bytes: two of them would differ by where
// their buffers lie.
#include <fmt/format.h>

#include <string>

#include "brim/bench/timing.h"
#include "brim/brim.h"
#include "brim/examples/support/app.h"
#include "brim/examples/support/program.h"

namespace {

using namespace brim;

struct Options {
  std::string model = "resnet20";
  int size = 32;
  int64_t batch = 32, steps = 5;  ///< of one run
  int pairs = 41;
};

void compare(const Options& o) {
  const data::SyntheticOptions images{.count = o.batch, .size = o.size, .classes = 10};
  const TrainerOptions options{.steps = 1 << 30, .schedule = optim::ConstantSchedule{.rate = 1e-3}};
  SyntheticSource source(images, /*batches=*/1 << 30);
  auto model = nn::make_model(o.model, {.classes = 10});
  optim::Sgd sgd(model->named_parameters(), {.momentum = 0.9});
  const data::SyntheticBatch batch = data::make_synthetic(images);
  const HostBatch host{batch.pixels, batch.labels, batch.size};
  TrainStep step(*model, sgd);
  Trainer trainer(*model, sgd, {source}, options);
  int64_t until = 0;
  trainer.should_stop = [&] { return trainer.updates() == until; };

  auto run_bare = [&] {
    for (int64_t i = 0; i < o.steps; ++i)
      step.run(1e-3, [&] { return training_loss(*model, host.upload(Device::cpu()), options); },
               {.samples = o.batch});
  };
  auto run_whole = [&] {
    until += o.steps;
    trainer.run();
  };
  run_bare(), run_whole();  // warm
  const auto [ratio, bare_seconds] = bench::in_pairs(o.pairs, run_bare, run_whole);
  fmt::print(
      "{} {}x{}, batch {}: bare step {:.2f} ms; trainer / bare: median {:.4f}, 95% interval "
      "{:.4f} to {:.4f}, {} pairs of {} steps\n",
      o.model, o.size, o.size, o.batch, 1e3 * bare_seconds / static_cast<double>(o.pairs * o.steps),
      ratio.median, ratio.low, ratio.high, o.pairs, o.steps);
}

}  // namespace

int main(int argc, char** argv) {
  examples::App app("What the trainer adds to a step.", "trainer_bench");
  Options options;
  app.add_option("--model", options.model).shows_default();
  app.add_option("--size", options.size).shows_default();
  app.add_option("--batch", options.batch).shows_default();
  app.add_option("--steps", options.steps).shows_default();
  app.add_option("--pairs", options.pairs).shows_default();
  return examples::run_program(app, argc, argv, [&] { compare(options); });
}
