// What `Trainer` adds to a step over the bare loop of `TrainStep`, and what a `Training` within its
// plan does: pairs of runs of a few steps
// each, one after the other, the order changing; the median of the ratios with its 95% interval by
// order statistics. Both train the same model on the same bytes: two of them would differ by where
// their buffers lie.
#include <fmt/format.h>

#include <string>

#include "brim/bench/timing.h"
#include "brim/brim.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/program.h"

namespace {

using namespace brim;

struct Options {
  std::string model = "resnet20";
  int size = 32;
  int64_t batch = 32, steps = 5;  ///< of one run
  int pairs = 41;
};

void say(const Options& o, const char* what, const bench::Spread& ratio, double bare_seconds) {
  fmt::print(
      "{} {}x{}, batch {}: bare step {:.2f} ms; {} / bare: median {:.4f}, 95% interval "
      "{:.4f} to {:.4f}, {} pairs of {} steps\n",
      o.model, o.size, o.size, o.batch, 1e3 * bare_seconds / static_cast<double>(o.pairs * o.steps),
      what, ratio.median, ratio.low, ratio.high, o.pairs, o.steps);
}

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
  say(o, "trainer", ratio, bare_seconds);
}

/// The same for `Training::update`, both on the arena of its plan.
void compare_planned(const Options& o) {
  const Recipe recipe{
      .model =
          [&] { return std::shared_ptr<nn::Module>(nn::make_model(o.model, {.classes = 10})); },
      .optimizer =
          [](nn::Module& model) {
            return std::make_unique<optim::Sgd>(model.named_parameters(),
                                                optim::SgdOptions{.momentum = 0.9});
          },
      .batch = image_batch(o.size)};
  const data::SyntheticBatch batch =
      data::make_synthetic({.count = o.batch, .size = o.size, .classes = 10});
  const HostExamples examples{
      .examples = o.batch,
      .tensors = {std::as_bytes(std::span(batch.pixels)), std::as_bytes(std::span(batch.labels))}};
  Training training = plan_training(recipe, {.bytes = int64_t{8} << 30, .batch = o.batch}).begin();
  auto run_bare = [&] {
    memory::AccountScope scope(training.account());
    for (int64_t i = 0; i < o.steps; ++i)
      training.step().run(1e-3,
                          [&] {
                            return recipe.loss(
                                training.model(),
                                make_batch(recipe, {0, o.batch}, Device::cpu(), &examples));
                          },
                          {.samples = o.batch, .update_samples = o.batch});
  };
  auto run_whole = [&] {
    for (int64_t i = 0; i < o.steps; ++i) training.update(examples, 1e-3);
  };
  run_bare(), run_whole();  // warm
  const auto [ratio, bare_seconds] = bench::in_pairs(o.pairs, run_bare, run_whole);
  say(o, "planned training", ratio, bare_seconds);
}

}  // namespace

int main(int argc, char** argv) {
  apps::App app("What the trainer adds to a step.", "trainer_bench");
  Options options;
  app.add_option("--model", options.model).shows_default();
  app.add_option("--size", options.size).shows_default();
  app.add_option("--batch", options.batch).shows_default();
  app.add_option("--steps", options.steps).shows_default();
  app.add_option("--pairs", options.pairs).shows_default();
  return apps::run_program(app, argc, argv, [&] {
    compare(options);
    compare_planned(options);
  });
}
