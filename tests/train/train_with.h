// A planned training (planned_training.h) run for real, with what is recomputed and offloaded, for
// tests that compare its numbers and its bytes with those of another. For bytes alone use `train`.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "brim/tests/train/planned_training.h"

namespace brim::testing {

/// What it was in the end.
struct Trained {
  std::vector<double> losses;
  std::vector<Skipped> skipped;
  std::vector<std::vector<float>> state;  ///< parameters, then buffers
  memory::AccountStats stats, host;       ///< of the device, and of what was offloaded
  autograd::OffloadStats copies;
};

/// Runs it under the planner with the cap.
inline Trained train_as(const TrainingCase& c, const TrainerOptions& options,
                        const memory::MakePlanner& planner, int64_t cap = memory::host_memory()) {
  auto account = std::make_shared<memory::Account>(
      Device::cpu(), std::make_unique<memory::HostSource>(cap), planner);
  auto host = memory::capped_host_account("caching");
  memory::AccountScope scope(account);
  autograd::OffloadHostScope offloading(host);
  Trained result;
  {
    auto model = make_model(c, Device::cpu());
    Updating updating = make_updating(c, *model);
    UnevenSource source(c);
    data::Loader validation(std::make_shared<data::Shapes>(data::ShapesOptions{
                                .count = c.batch + c.smaller(), .size = c.size}),
                            {.batch = c.batch, .size = c.size, .workers = 0, .shuffle = false});
    Trainer trainer(*model, *updating.optimizer, {source, &validation}, options);
    trainer.on_step = [&](const StepReport& step) {
      result.losses.push_back(step.loss);
      if (step.skipped) result.skipped.push_back(*step.skipped);
    };
    trainer.run();
    if (trainer.offload() != nullptr) result.copies = trainer.offload()->stats();
    for (const auto& named : {model->named_parameters(), model->named_buffers()})
      for (const auto& each : named) result.state.push_back(each.tensor.to_vector<float>());
  }
  result.stats = account->stats();
  result.host = host->stats();
  CHECK(result.stats.live == 0);
  CHECK(result.host.live == 0);
  return result;
}

/// The same with the case's own options but for these.
inline Trained train_with(const TrainingCase& c, const RecomputeOptions& recompute,
                          const memory::MakePlanner& planner, int64_t cap = memory::host_memory(),
                          const OffloadOptions& offload = {}) {
  TrainerOptions options = trainer_options(c);
  options.recompute = recompute;
  options.offload = offload;
  return train_as(c, options, planner, cap);
}

}  // namespace brim::testing
