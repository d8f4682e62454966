#include "brim/train/replanning.h"

#include <algorithm>

#include "brim/memory/arena_planner.h"
#include "brim/memory/out_of_memory.h"
#include "brim/train/batch_tuning.h"
#include "brim/train/kept_plan.h"
#include "brim/train/ladder.h"
#include "brim/train/parts.h"

namespace brim {

Replanning::Replanning(nn::Module& model, const optim::Optimizer& optimizer,
                       const TrainingData& data, const TrainerOptions& options)
    : model_(model),
      optimizer_(optimizer),
      data_(data),
      options_(options),
      account_(memory::account(options.input.device)),
      wanted_(options.micro_batch > 0 ? options.micro_batch : data.training.shape().images),
      planned_(account_->cap()) {}

bool Replanning::is_beyond() const { return account_->stats().reserved > account_->cap(); }

bool Replanning::has_shrunk(int64_t total) const {
  return std::min(account_->cap(), total) < planned_;
}

bool Replanning::may_grow(int64_t micro_batch) const {
  return micro_batch < wanted_ && account_->cap() > planned_;
}

RehearsalOptions Replanning::rehearsal(int64_t micro_batch) const {
  return rehearsal_of(model_, optimizer_, data_, options_, micro_batch);
}

// Model and optimizer are those of the checkpoint, which says so by itself; what is frozen it does
// not say.
std::string Replanning::identity(int64_t micro_batch) const {
  const auto parts = model_.named_modules();
  const auto training = std::ranges::count_if(
      parts, [](const nn::NamedModule& part) { return part.module.training(); });
  return fmt::format(
      "{} of {} modules in training mode, {} parameters updated, up to {} images at "
      "once; {}",
      training, parts.size(), optimizer_.parameters().size(), wanted_,
      plan_identity(rehearsal(micro_batch)));
}

std::string Replanning::kept(int64_t micro_batch) const {
  auto plan = account_->plan();
  return plan == nullptr ? "" : to_text({plan, micro_batch, planned_});
}

ReplanReport Replanning::take_up(const std::string& kept) {
  const int64_t capacity = account_->cap();
  const KeptPlan found =
      kept_plan_from(kept, capacity, [this](int64_t micro_batch) { return identity(micro_batch); });
  try {
    account_->replan(memory::arena_planner(found.plan, {.device = account_->device()}));
  } catch (const memory::OutOfMemory& error) {
    raise<FileError>("plan", "the plan of the checkpoint does not fit beside what else is held: {}",
                     error.what());
  }
  planned_ = capacity;
  return {.why = "the training goes on as it was planned",
          .micro_batch = found.micro_batch,
          .micro_batches = count_parts(data_.training.shape().images, found.micro_batch),
          .capacity = capacity,
          .predicted = memory_of(*found.plan),
          .kept = true};
}

void Replanning::require_possible() const {
  if (const std::string planner = account_->planner_name(); planner != "arena")
    memory::planner_named(planner);
  const RehearsalOptions training = rehearsal(wanted_);
  training.make_updating(*model_on_meta(training));
}

std::string Replanning::suspend() {
  std::string planner = account_->planner_name();
  if (planner == "arena") account_->replan(memory::planner_named("direct"));
  return planner;
}

std::optional<StepMemory> Replanning::predict(int64_t batch) const {
  RehearsalOptions options = rehearsal(batch);
  options.effective_batch = options.last_update = options.evaluation_batch = 0;
  try {
    return predicted_memory({std::move(options), account_->planner_name()}, account_->cap());
  } catch (const ValueError&) {
    return {};  // batch norm wants two values per channel
  }
}

void Replanning::refuse(int64_t least_bytes) const {
  memory::AccountStats now = account_->stats();
  throw memory::OutOfMemory(
      memory::Shortage{.device = account_->device(),
                       .requested = least_bytes,
                       .category = memory::Category::other,
                       .total = account_->cap(),
                       .live = now.live,
                       .cached = now.cached,
                       .fragmented = now.fragmented,
                       .free = std::max<int64_t>(account_->cap() - now.reserved, 0),
                       .by_category = now.by_category,
                       .site = {.op = "training step"}});
}

ReplanReport Replanning::plan(const std::string& why, const std::string& asked) {
  const std::string planner = asked.empty() ? account_->planner_name() : asked;
  const int64_t capacity = account_->cap();
  BatchTuning tuning{.rehearsal = [this](int64_t batch) { return rehearsal(batch); },
                     .planner = planner,
                     .limit = capacity,
                     .most = wanted_,
                     .update_images = data_.training.shape().images};
  TunedBatch tuned = tune_batch(tuning);
  // What is held beyond the training's state is not its own.
  if (int64_t others = account_->stats().live - tuned.memory.state;
      tuned.batch > 0 && others > 0 && others + tuned.memory.peak_reserved > capacity) {
    tuning.limit = std::max<int64_t>(capacity - others, 1);
    tuned = tune_batch(tuning);
  }
  const bool whole = tuned.batch >= tuning.update_images;
  if (tuned.batch == 0 || (options_.fused_update && !whole)) refuse(tuned.memory.peak_reserved);
  move_to(planner, tuned.batch);
  planned_ = capacity;
  return {.why = why,
          .micro_batch = tuned.batch,
          .micro_batches = count_parts(tuning.update_images, tuned.batch),
          .capacity = capacity,
          .predicted = tuned.memory};
}

void Replanning::move_to(const std::string& planner, int64_t micro_batch) {
  if (planner != "arena") return account_->replan(memory::planner_named(planner));
  const RehearsalOptions training = rehearsal(micro_batch);
  RehearsedPlan planned =
      plan_on_meta([&](const auto& state_is_held) { rehearse(training, state_is_held); },
                   {.identity = identity(micro_batch)});
  account_->replan(memory::arena_planner(planned.plan, {.device = account_->device()}));
}

}  // namespace brim
