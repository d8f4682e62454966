#include "brim/train/trainer.h"

#include <chrono>

#include "brim/ops/cross_entropy.h"

namespace brim {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Tensor mixed_loss(nn::Module& model, data::DeviceBatch batch, const TrainerOptions& options) {
  const Shape shape = batch.images.shape();
  const Mix mix = draw_mix(options.mix, static_cast<int>(shape[1]), static_cast<int>(shape[2]),
                           autograd::next_random_address("mix").key);
  mix_images(batch.images, mix);
  Tensor logits = model(prepare_input(std::move(batch.images), options.input));
  // Halves take targets of float32.
  const Dtype dtype = logits.dtype() == Dtype::float64 ? Dtype::float64 : Dtype::float32;
  Tensor targets = mix_labels(batch.labels, logits.size(-1), mix,
                              {.label_smoothing = options.label_smoothing, .dtype = dtype});
  batch.labels = {};
  return cross_entropy(std::move(logits), std::move(targets));
}

}  // namespace

Tensor training_loss(nn::Module& model, data::DeviceBatch batch, const TrainerOptions& options) {
  if (options.mix.any()) return mixed_loss(model, std::move(batch), options);
  Tensor logits = model(prepare_input(std::move(batch.images), options.input));
  return cross_entropy(std::move(logits), std::move(batch.labels),
                       {.label_smoothing = options.label_smoothing});
}

Trainer::Trainer(nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options)
    : model_(model),
      options_(std::move(options)),
      optimizer_(optimizer),
      step_(model, optimizer, {.seed = options_.seed, .clip = options_.clip, .ema = options_.ema}) {
  expect<ValueError>(options_.steps >= 1, "trainer", "expected at least 1 step, got {}",
                     options_.steps);
  check_mix(options_.mix);
}

void Trainer::run(BatchSource& training, data::Loader* validation) {
  for (int64_t epoch = 0; step_.updates() < options_.steps; ++epoch)
    run_epoch(training, validation, epoch);
}

void Trainer::run_epoch(BatchSource& training, data::Loader* validation, int64_t epoch) {
  EpochReport report{.epoch = epoch + 1};
  int64_t images = 0;
  training.start_epoch(epoch);
  while (step_.updates() < options_.steps) {
    auto start = std::chrono::steady_clock::now();
    auto batch = training.next();
    if (!batch) break;
    StepReport step = run_step(*batch);
    step.seconds = seconds_since(start);
    step.epoch = epoch + 1;
    report.train_loss += step.loss * static_cast<double>(step.images);
    report.seconds += step.seconds;
    images += step.images;
    if (on_step) on_step(step);
  }
  check(images > 0, "an epoch has at least one batch");
  report.train_loss /= static_cast<double>(images);
  if (validation != nullptr) {
    std::optional<optim::EmaScope> averaged;
    if (options_.ema != nullptr) averaged.emplace(*options_.ema);
    report.validation = evaluate(model_, *validation, options_.input, on_evaluation);
  }
  if (on_epoch) on_epoch(report);
}

double Trainer::update(const HostBatch& batch, double rate) {
  auto images = static_cast<int64_t>(batch.labels.size());
  // The host keeps the batch until commit, so the step can be run again from it.
  auto loss = [&] {
    return training_loss(
        model_, data::to_device(batch.pixels, batch.labels, batch.size, options_.input.device),
        options_);
  };
  try {
    return step_.run(rate, loss, {.samples = images});
  } catch (const memory::OutOfMemory& error) {
    if (!plan_batch) throw;
    throw with_remedies(error, plan_batch, images);
  }
}

StepReport Trainer::run_step(const HostBatch& batch) {
  StepReport report{.rate = options_.schedule.rate(step_.updates()),
                    .images = static_cast<int64_t>(batch.labels.size())};
  report.loss = update(batch, report.rate);
  report.step = step_.updates();
  report.gradient_norm = optimizer_.gradient_norm();
  return report;
}

}  // namespace brim
