// A short training run of a model of the zoo, predicted and then run for real: epochs of two
// whole updates and a smaller one, each followed by an evaluation whose last batch is smaller. For
// tests and benchmarks of predictions; what the network learns does not matter.
#pragma once

#include <string>

#include "brim/brim.h"
#include "brim/memory/arena_planner.h"
#include "brim/memory/cuda_source.h"
#include "brim/train/cards.h"

namespace brim::testing {

struct TrainingCase {
  std::string model;
  int size = 32;
  int64_t batch = 4;
  std::string optimizer = "sgd";  ///< with momentum; or adamw
  int64_t epochs = 2;
  Dtype parameters = Dtype::float32, state = Dtype::float32;  ///< what they are kept in
  nn::ModelSizes sizes = {};                                  ///< of a pruned model
  Device device = Device::cpu();

  TrainingCase with_batch(int64_t other) const {
    TrainingCase changed = *this;
    changed.batch = other;
    return changed;
  }
  TrainingCase with_epochs(int64_t other) const {
    TrainingCase changed = *this;
    changed.epochs = other;
    return changed;
  }
  int64_t smaller() const { return batch - batch / 3 - 1; }  // of 4: 2
  std::string name() const {
    return fmt::format("{} at {} pixels, batch {}, {}", model, size, batch, optimizer);
  }
};

inline std::unique_ptr<nn::Module> make_model(const TrainingCase& c, Device device) {
  const bool low = c.parameters != Dtype::float32;
  return nn::make_model(c.model, {.classes = 10,
                                  .dtype = low ? c.parameters : nn::creation_options().dtype,
                                  .device = device,
                                  .sizes = c.sizes});
}

inline Updating make_updating(const TrainingCase& c, nn::Module& model) {
  if (c.optimizer == "adamw")
    return {std::make_unique<optim::AdamW>(model.named_parameters(),
                                           optim::AdamWOptions{.state = c.state})};
  return {std::make_unique<optim::Sgd>(model.named_parameters(),
                                       optim::SgdOptions{.momentum = 0.9, .state = c.state})};
}

inline TrainerOptions trainer_options(const TrainingCase& c = {}) {
  // Some batch norms of the smaller update see two numbers, and gradients grow beyond bounds on
  // their way through them: only a tiny rate keeps all weights finite.
  return {.steps = 3 * c.epochs,
          .schedule = optim::ConstantSchedule{.rate = 1e-9},
          .input = {.device = c.device}};
}

inline RehearsalOptions rehearsal_options(const TrainingCase& c) {
  return {.make_model = [c] { return make_model(c, Device::meta()); },
          .make_updating = [c](nn::Module& model) { return make_updating(c, model); },
          .trainer = trainer_options(c),
          .size = c.size,
          .batch = c.batch,
          .updates = 2,
          .last_update = c.smaller(),
          .evaluated = c.batch + c.smaller()};
}

inline MetaProgram rehearsal_of(const TrainingCase& c) {
  return [options = rehearsal_options(c)](const std::function<void()>& state_is_held) {
    rehearse(options, state_is_held);
  };
}

/// What it will hold under a planner, by name.
inline StepMemory predicted(const TrainingCase& c, const std::string& planner) {
  return plan_under(planner, rehearsal_of(c)).predicted;
}

/// Two whole batches of random pixels and a smaller one.
class UnevenSource final : public BatchSource {
 public:
  explicit UnevenSource(const TrainingCase& c)
      : case_(c), all_(data::make_synthetic({.count = c.batch, .size = c.size})) {}
  EpochShape shape() const override { return {2, case_.batch, case_.smaller(), case_.size}; }
  std::optional<HostBatch> next() override {
    if (given_ == batches()) return {};
    auto count = static_cast<size_t>(++given_ == batches() ? case_.smaller() : case_.batch);
    size_t pixels = all_.pixels.size() / static_cast<size_t>(case_.batch) * count;
    return HostBatch{std::span(all_.pixels).first(pixels), std::span(all_.labels).first(count),
                     case_.size};
  }

 private:
  void begin_epoch(int64_t, int64_t first_batch) override { given_ = first_batch; }

  TrainingCase case_;
  data::SyntheticBatch all_;
  int64_t given_ = 0;
};

inline std::unique_ptr<memory::Source> source_of(const TrainingCase& c, int64_t cap) {
  if (!c.device.is_cuda()) return std::make_unique<memory::HostSource>(cap);
  std::unique_ptr<memory::Source> source = memory::cuda_source(c.device);
  source->set_capacity(std::min(source->capacity(), cap));
  return source;
}

/// Runs it under the planner with the cap; what the account says in the end. `after_step` may be
/// null.
inline memory::AccountStats train(const TrainingCase& c, const memory::MakePlanner& planner,
                                  int64_t cap = memory::host_memory(),
                                  const std::function<void(memory::Account&)>& after_step = {},
                                  const RecomputeOptions& recompute = {}) {
  auto account = std::make_shared<memory::Account>(c.device, source_of(c, cap), planner);
  memory::AccountScope scope(account);
  {
    auto model = make_model(c, c.device);
    Updating updating = make_updating(c, *model);
    UnevenSource source(c);
    data::Loader validation(std::make_shared<data::Shapes>(data::ShapesOptions{
                                .count = c.batch + c.smaller(), .size = c.size}),
                            {.batch = c.batch, .size = c.size, .workers = 0, .shuffle = false});
    TrainerOptions options = trainer_options(c);
    options.recompute = recompute;
    Trainer trainer(*model, *updating.optimizer, {source, &validation}, options);
    if (after_step) trainer.on_step = [&](const StepReport&) { after_step(*account); };
    trainer.run();
  }
  memory::AccountStats stats = account->stats();
  check(stats.live == 0, "every byte came back");
  return stats;
}

}  // namespace brim::testing
