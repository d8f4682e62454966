// A planned training (planned_training.h) run for real under some recomputation, for tests that
// compare its numbers and its bytes with those of another. For bytes alone use `train`.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "brim/tests/train/planned_training.h"

namespace brim::testing {

/// What it was in the end.
struct Trained {
  std::vector<double> losses;
  std::vector<std::vector<float>> state;  ///< parameters, then buffers
  memory::AccountStats stats;
};

/// Runs it under the planner with the cap.
inline Trained train_with(const TrainingCase& c, const RecomputeOptions& recompute,
                          const memory::MakePlanner& planner, int64_t cap = memory::host_memory(),
                          const OffloadOptions& offload = {}) {
  auto account = std::make_shared<memory::Account>(
      Device::cpu(), std::make_unique<memory::HostSource>(cap), planner);
  memory::AccountScope scope(account);
  Trained result;
  {
    auto model = nn::make_model(c.model, {.classes = 10});
    Updating updating = make_updating(c, *model);
    UnevenSource source(c);
    data::Loader validation(std::make_shared<data::Shapes>(data::ShapesOptions{
                                .count = c.batch + c.smaller(), .size = c.size}),
                            {.batch = c.batch, .size = c.size, .workers = 0, .shuffle = false});
    TrainerOptions options = trainer_options(c);
    options.recompute = recompute;
    options.offload = offload;
    Trainer trainer(*model, *updating.optimizer, {source, &validation}, options);
    trainer.on_step = [&](const StepReport& step) { result.losses.push_back(step.loss); };
    trainer.run();
    for (const auto& named : model->named_parameters())
      result.state.push_back(named.tensor.to_vector<float>());
    for (const auto& named : model->named_buffers())
      result.state.push_back(named.tensor.to_vector<float>());
  }
  result.stats = account->stats();
  CHECK(result.stats.live == 0);
  return result;
}

}  // namespace brim::testing
