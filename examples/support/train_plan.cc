#include "brim/examples/support/train_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <optional>

#include "brim/base/bytes.h"
#include "brim/base/instructions.h"
#include "brim/base/parallel.h"
#include "brim/examples/support/plan_file.h"
#include "brim/examples/support/program.h"
#include "brim/memory/arena_planner.h"

namespace brim::examples {
namespace {

int64_t evaluated(const TrainData& data) { return data.val_set ? data.val_set->size() : 0; }

std::string message_of(const SmallerBatch& found, const TrainFlags& flags, const StepMemory& need) {
  std::string remedy;
  if (found.fits)
    remedy = fmt::format("; batch {} fits", found.fits->batch);
  else if (found.least.batch < flags.batch)
    remedy = fmt::format("; batch {} does not fit either", found.least.batch);
  std::string why =
      need.state > flags.limit()
          ? fmt::format("parameters, buffers and optimizer state alone take {} ({} bytes)",
                        format_bytes(need.state), need.state)
          : fmt::format("a step at batch {} takes {} ({} bytes)", flags.batch,
                        format_bytes(need.peak_reserved), need.peak_reserved);
  return fmt::format("{} does not fit the {} of {} ({} bytes): {}{}", flags.model,
                     flags.budget > 0 ? "budget" : "machine's memory", format_bytes(flags.limit()),
                     flags.limit(), why, remedy);
}

[[noreturn]] void refuse(const TrainFlags& flags, const TrainData& data, const StepMemory& need,
                         Events& events) {
  Refusal refusal = refusal_of(flags, data, need);
  Json fits = Json::array();
  if (const auto& choice = refusal.smaller.fits)
    fits.push_back({{"remedy", fmt::format("batch {}", choice->batch)},
                    {"predicted_peak_bytes", choice->memory.peak_reserved},
                    {"relative_time", 1.0}});
  events.write({{"event", "refused"},
                {"needed_bytes", need.peak_reserved},
                {"budget_bytes", flags.limit()},
                {"least_possible_bytes", refusal.smaller.least.memory.peak_reserved},
                {"fits", fits}});
  throw DoesNotFit{refusal.message};
}

/// What the bytes of the run follow from.
std::string identity_of(const TrainFlags& flags, const TrainData& data, int64_t batch) {
  const OptimizerFlags& o = flags.optimizer;
  return fmt::format(
      "{}, {} classes, {}x{}, batch {}, {} steps, {} an epoch, {} evaluated, {} an update; {}, "
      "momentum {}, "
      "no decay {}, clip {} {}, ema {}, freeze {}; mixup {}, cutmix {}, label smoothing {}; {}, "
      "{} threads",
      flags.model, data.classes, flags.size, flags.size, batch, data.steps(flags), data.batches,
      evaluated(data), std::max(batch, flags.effective_batch), o.name, o.momentum.value_or(0),
      fmt::join(o.no_decay, " "), o.clip.norm, o.clip.value, o.ema, fmt::join(o.freeze, " "),
      flags.augment.mix.mixup, flags.augment.mix.cutmix, flags.label_smoothing,
      to_string(instructions()), num_threads());
}

/// From `--plan`, where that is the answer; else made.
MemoryPlan find_plan(const TrainFlags& flags, const TrainData& data) {
  if (flags.plan.empty()) return predict_memory(flags, data, flags.batch);
  try {
    TrainingPlan kept = load_plan(flags.plan, identity_of(flags, data, flags.batch));
    return {.predicted = kept.predicted, .training = std::move(kept)};
  } catch (const FileError& error) {
    std::cerr << "train: " << error.what() << "; planning again" << std::endl;
    return predict_memory(flags, data, flags.batch);
  }
}

}  // namespace

std::optional<StepMemory> prediction_if_any(const TrainFlags& flags, const TrainData& data,
                                            int64_t batch) {
  try {
    return predict_memory(flags, data, batch).predicted;
  } catch (const ValueError&) {
    return {};  // batch norm wants two values per channel
  }
}

Refusal refusal_of(const TrainFlags& flags, const TrainData& data, const StepMemory& need) {
  auto plan = [&](int64_t batch) {
    return batch == flags.batch ? need : prediction_if_any(flags, data, batch);
  };
  SmallerBatch found = find_smaller_batch(plan, flags.batch, flags.limit());
  return {found, message_of(found, flags, need)};
}

memory::MakePlanner MemoryPlan::planner(const TrainFlags& flags) const {
  return training.plan ? memory::arena_planner(training.plan, {.device = flags.device})
                       : memory::planner_named(flags.planner);
}

RehearsalOptions rehearsal_of(const TrainFlags& flags, const TrainData& data, int64_t batch) {
  return {
      .make_model =
          [&] { return nn::make_model(flags.model, model_options(flags, data, Device::meta())); },
      .make_updating = [&](nn::Module& model) { return make_updating(flags.optimizer, model); },
      .trainer = trainer_options(flags, data),
      .size = flags.size,
      .batch = batch,
      .updates = data.batches,
      .effective_batch = flags.effective_batch,
      .evaluated = evaluated(data)};
}

MemoryPlan predict_memory(const TrainFlags& flags, const TrainData& data, int64_t batch) {
  RehearsalOptions options = rehearsal_of(flags, data, batch);
  auto program = [&](const auto& state_is_held) { rehearse(options, state_is_held); };
  if (flags.planner != "arena")
    return {.predicted = measure_on_meta(memory::planner_named(flags.planner), program)};
  MemoryPlan plan{.training = plan_on_meta(program, {.identity = identity_of(flags, data, batch)})};
  plan.predicted = plan.training.predicted;
  return plan;
}

MemoryPlan plan_memory(const TrainFlags& flags, const TrainData& data, Events& events) {
  MemoryPlan plan = find_plan(flags, data);
  const StepMemory& need = plan.predicted;
  if (need.peak_reserved > flags.limit()) refuse(flags, data, need, events);
  if (!flags.save_plan.empty()) save_plan(flags.save_plan, plan.training);
  if (!flags.trace.empty() && !plan.training.plan)
    plan.training.trace = trace_on_meta([&](const auto& state_is_held) {
      rehearse(rehearsal_of(flags, data, flags.batch), state_is_held);
    });
  Json event{{"event", "plan"},
             {"batch", flags.batch},
             {"micro_batches", 1},
             {"effective_batch", flags.batch},
             {"predicted_peak_bytes", need.peak_reserved},
             {"predicted_peak_live_bytes", need.peak_live},
             {"relative_time", 1.0},
             {"remedies", Json::array()},
             {"precision", "f32"}};
  if (flags.budget > 0) event["budget_bytes"] = flags.budget;
  events.write(event);
  return plan;
}

}  // namespace brim::examples
