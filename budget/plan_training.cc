#include "brim/budget/plan_training.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <set>

#include "brim/base/bytes.h"
#include "brim/budget/recipe_rehearsal.h"
#include "brim/train/batch_tuning.h"

namespace brim {
namespace {

constexpr const char* kTag = "plan_training";

void require_whole(const Recipe& recipe, const Budget& budget) {
  expect<ValueError>(recipe.model && recipe.optimizer && recipe.loss && !recipe.batch.empty(), kTag,
                     "expected a recipe with model, optimizer, batch and loss");
  std::set<std::string> names;
  for (const BatchTensor& tensor : recipe.batch)
    expect<ValueError>(names.insert(tensor.name).second, kTag,
                       "two tensors of the batch are called '{}'", tensor.name);
  expect<ValueError>(
      recipe.precision != Dtype::float16, kTag,
      "float16 wants its loss scaled, as Trainer does; expected float32 or bfloat16");
  expect<ValueError>(budget.bytes > 0, kTag, "expected a budget of at least 1 byte, got {}",
                     budget.bytes);
  expect<ValueError>(budget.batch >= 0, kTag,
                     "expected a batch of at least 1 example, or 0 for the most that fit, got {}",
                     budget.batch);
  expect<ValueError>(budget.most_batch > 0, kTag, "expected most_batch to be at least 1, got {}",
                     budget.most_batch);
  expect<ValueError>(budget.micro_batch >= 0 && budget.micro_batch <= budget.batch, kTag,
                     "expected a micro-batch from 1 to the {} examples of a batch, got {}",
                     budget.batch, budget.micro_batch);
}

/// Of the budget, or the most that fit with all kept; where none does, the least.
int64_t batch_of(const std::shared_ptr<const Recipe>& recipe, const Budget& budget) {
  if (budget.batch > 0) return budget.batch;
  const TunedBatch tuned = tune_batch({.rehearsal =
                                           [&](int64_t batch) {
                                             Budget with = budget;
                                             with.batch = batch;
                                             return rehearsal_of(recipe, with);
                                           },
                                       .limit = budget.bytes,
                                       .most = budget.most_batch});
  return tuned.batch > 0 ? tuned.batch : tuned.least;
}

std::string text_of(const Rung& rung) { return fmt::format("{}", fmt::join(rung.remedies, ", ")); }

}  // namespace

std::string TrainingPlan::why_not() const {
  if (fits()) return "";
  const Rung* least = nullptr;
  std::string offers;
  for (const Rung& rung : ladder_.considered) {
    if (rung.fits)
      offers += fmt::format("{}{} ({})", offers.empty() ? "" : "; ", text_of(rung),
                            format_bytes(rung.memory.peak_reserved));
    if (least == nullptr || rung.memory.peak_reserved < least->memory.peak_reserved) least = &rung;
  }
  const std::string cure =
      !offers.empty() ? "what would fit: " + offers
      : least->remedies.empty()
          ? fmt::format("nothing needs less than that")
          : fmt::format("least is needed with {}: {} ({} bytes)", text_of(*least),
                        format_bytes(least->memory.peak_reserved), least->memory.peak_reserved);
  return fmt::format(
      "a step of {} examples takes {} ({} bytes), more than the budget of {} ({} "
      "bytes); {}",
      batch(), format_bytes(predicted().peak_reserved), predicted().peak_reserved,
      format_bytes(budget_.bytes), budget_.bytes, cure);
}

Training TrainingPlan::begin() const {
  expect<ValueError>(fits(), kTag, "the training does not fit: {}", why_not());
  const std::string now = plan_identity(rung().setup.rehearsal);
  expect<ValueError>(now == plan_->identity, kTag,
                     "this was planned for '{}', and here it would be '{}': plan again",
                     plan_->identity, now);
  return Training::make(recipe_, rung().setup.rehearsal, plan_, budget_.bytes, tensors_);
}

Training TrainingPlan::train(ExampleSource& source, const EpochOptions& options) const {
  expect<ValueError>(options.epochs > 0, kTag, "expected at least 1 epoch, got {}", options.epochs);
  Training training = begin();
  int64_t updates = 0;
  for (int64_t epoch = 1; epoch <= options.epochs; ++epoch) {
    source.start_epoch(epoch - 1);
    const int64_t before = updates;
    for (std::optional<HostExamples> batch; (batch = whole_batch(source, epoch));) {
      const double loss = training.update(*batch, options.schedule.rate(updates));
      ++updates;
      if (options.on_update) options.on_update(updates, loss);
    }
    expect<ValueError>(updates > before, kTag,
                       "epoch {} of the source ended before it gave a batch of {} examples", epoch,
                       this->batch());
    if (options.on_epoch) options.on_epoch(epoch, training);
  }
  return training;
}

std::optional<HostExamples> TrainingPlan::whole_batch(ExampleSource& source, int64_t epoch) const {
  std::optional<HostExamples> batch = source.next();
  if (!batch || batch->examples >= this->batch()) return batch;
  const int64_t rest = batch->examples;
  expect<ValueError>(!source.next(), kTag,
                     "epoch {} of the source goes on behind a batch of {} examples, where {} were "
                     "expected",
                     epoch, rest, this->batch());
  return {};
}

TrainingPlan plan_training(Recipe recipe, const Budget& budget) {
  require_whole(recipe, budget);
  TrainingPlan plan;
  plan.recipe_ = std::make_shared<const Recipe>(std::move(recipe));
  plan.budget_ = budget;
  plan.budget_.batch = batch_of(plan.recipe_, budget);
  plan.ladder_ =
      standard_ladder().climb({rehearsal_of(plan.recipe_, plan.budget_), "arena"},
                              {.limit = budget.bytes, .may_choose_all = budget.take_proposals});
  plan.place_buffers();
  return plan;
}

void TrainingPlan::place_buffers() {
  if (!fits()) return;
  const RehearsalOptions& chosen = rung().setup.rehearsal;
  const RehearsedPlan rehearsed = plan_under(
      "arena", [&](const std::function<void()>& state_is_held) { rehearse(chosen, state_is_held); },
      {.identity = plan_identity(chosen), .capacity = budget_.bytes});
  check(rehearsed.predicted.peak_reserved == predicted().peak_reserved,
        "the plan of what was chosen holds what was considered");
  plan_ = rehearsed.plan;
  tensors_ = tensors_of(*model_on_meta(chosen));
}

TrainingPlan TrainingPlan::take(size_t line) const {
  const std::vector<Rung>& lines = ladder_.considered;
  expect<ValueError>(line < lines.size() && lines[line].fits, kTag,
                     "expected a line of the table that fits, from 0 to {}, got {}",
                     lines.size() - 1, line);
  TrainingPlan taken = *this;
  taken.ladder_.chosen = line;
  taken.place_buffers();
  return taken;
}

}  // namespace brim
