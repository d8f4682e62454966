#include "brim/apps/support/train_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>

#include "brim/base/bytes.h"
#include "brim/apps/support/algorithm_flags.h"
#include "brim/apps/support/kept_choice.h"
#include "brim/apps/support/output.h"
#include "brim/apps/support/plan_file.h"
#include "brim/apps/support/planned_device.h"
#include "brim/apps/support/refusal.h"
#include "brim/apps/support/run_identity.h"
#include "brim/apps/support/train_speed.h"
#include "brim/memory/arena_planner.h"
#include "brim/train/kept_plan.h"
#include "brim/train/parts.h"
#include "brim/train/predicted_time.h"

namespace brim::apps {
namespace {

int64_t evaluated(const TrainData& data) { return data.val_set ? data.val_set->size() : 0; }

/// Not rounded to larger units: what fits and what does not are close together.
std::string in_mib(int64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

/// The flags of the same run with `batch` images at once.
TrainFlags with_batch(TrainFlags flags, int64_t batch) {
  flags.batch = batch;
  return flags;
}

std::string identity_of(const TrainFlags& flags, const TrainData& data, int64_t batch) {
  return bytes_identity(with_batch(flags, batch), data, rehearsal_of(flags, data, batch));
}

/// From `--plan`, where that is the answer; else made.
MemoryPlan find_plan(const TrainFlags& flags, const TrainData& data) {
  if (flags.plan.empty()) return predict_memory(flags, data, flags.batch);
  try {
    RehearsedPlan kept = load_plan(flags.plan, identity_of(flags, data, flags.batch));
    return {.from = "file", .predicted = kept.predicted, .training = std::move(kept)};
  } catch (const FileError& error) {
    std::cerr << "train: " << shown(error.what()) << "; planning again" << std::endl;
    return predict_memory(flags, data, flags.batch);
  }
}

void require_batch_asked_for(const TrainFlags& flags, int64_t batch) {
  expect<FileError>(
      (flags.max_batch == 0 || batch <= flags.max_batch) && batch % flags.batch_multiple == 0,
      "plan",
      "the plan of the checkpoint is for batch {}, which --max-batch or "
      "--batch-multiple leaves out",
      batch);
}

RecomputeMeans means_of(const TrainFlags& flags) { return {.drop = flags.may_drop()}; }

/// As many calls in each as there are in a step over their number: which ops convolve depends on
/// the batch, so of that, or, where it is yet to be found, of the least.
void set_segments(TrainFlags& flags, const TrainData& data) {
  if (flags.segments == 0) return;
  constexpr int64_t kLeast = 2;  // batch norm wants two values
  const int64_t batch = flags.finds_batch() ? kLeast : std::max(flags.batch, kLeast);
  const auto calls = std::ssize(record_step(rehearsal_of(flags, data, batch)).values);
  flags.recompute = segmented_recomputation(flags.segments, ceil_div(calls, flags.segments));
}

Json remedies_in_force(const TrainFlags& flags) {
  Json remedies = Json::array();
  if (flags.dropped > 0 || flags.segments > 0) remedies.push_back("recompute");
  if (flags.offloaded > 0) remedies.push_back("offload");
  if (flags.update_images() > flags.batch) remedies.push_back("micro-batches");
  if (flags.fused_update) remedies.push_back("fused update");
  if (flags.gradients_text != "f32") remedies.push_back("gradients");
  if (flags.optimizer.state_text != "f32") remedies.push_back("optimizer state");
  if (flags.parameters_text != "f32") remedies.push_back("parameters");
  return remedies;
}

/// "recomputing 12 and offloading 3 saved tensors (20.0 MiB in the host)".
std::string text_of(const RecomputeChoice& choice) {
  std::string text;
  if (choice.dropped > 0) text = fmt::format("recomputing {}", choice.dropped);
  if (choice.offloaded > 0)
    text += fmt::format("{}offloading {}", text.empty() ? "" : " and ", choice.offloaded);
  text += " saved tensors";
  if (choice.offloaded > 0) text += fmt::format(" ({} in the host)", in_mib(choice.plan.host_peak));
  return text;
}

/// With what `choose_recompute` will do.
bool fits_when_planned(const TrainFlags& flags, const TrainData& data) {
  if (!flags.plans_recompute()) return false;
  RecomputeMeans means = means_of(flags);
  means.search_least = false;
  return choose_recomputation({rehearsal_of(flags, data, flags.batch), flags.planner},
                              flags.limit(), means)
      .fits;
}

/// Of the batches that fit.
void take_fastest(TrainFlags& flags, const TrainData& data, const TunedBatch& tuned, bool says) {
  if (says)
    fmt::print("{} images fit {}; timing up to so many\n", tuned.batch, in_mib(flags.limit()));
  const std::vector<SpeedPoint> curve = measure_batches(flags, data, tuned.least, tuned.batch);
  flags = with_batch(flags, knee(curve).batch);
  if (!says) return;
  fmt::print("{}batch {}: the smallest within 5% of the fastest, of those that fit\n",
             draw_speed(curve), flags.batch);
}

}  // namespace

KeptMemory take_up_plan(TrainFlags& flags, const TrainData& data, const std::string& kept) {
  if (kept.empty() || flags.planner != "arena") return {};
  const bool open = flags.batch == 0;
  try {
    KeptPlan found = kept_plan_from(kept, flags.limit(), [&](int64_t images) {
      return identity_of(flags, data, open ? images : flags.batch);
    });
    if (open) require_batch_asked_for(flags, found.micro_batch);
    flags = with_batch(flags, found.micro_batch);
    MemoryPlan plan{.from = "checkpoint",
                    .predicted = memory_of(*found.plan),
                    .training = {.plan = std::move(found.plan)}};
    plan.training.predicted = plan.predicted;
    return {.plan = plan,
            .said = fmt::format("under the memory plan that it has: batch {}, {}", flags.batch,
                                in_mib(plan.predicted.peak_reserved))};
  } catch (const FileError& error) {
    return {.plan = {}, .said = fmt::format("{}; planned again", error.what())};
  }
}

memory::MakePlanner MemoryPlan::planner(const TrainFlags& flags) const {
  return training.plan ? memory::arena_planner(training.plan, {.device = flags.device})
                       : memory::planner_named(flags.planner);
}

RehearsalOptions rehearsal_of(const TrainFlags& asked, const TrainData& data, int64_t batch) {
  auto run = std::make_shared<const TrainFlags>(with_batch(asked, batch));
  const TrainFlags& flags = *run;
  TrainerOptions trainer = trainer_options(flags, data);
  if (!flags.prune.to.empty())  // of pruning, bytes follow from what it looks at
    trainer.pruning = {.channels = {.criterion = shrink::criterion_of(flags.prune.criterion)}};
  return {
      .make_model =
          [run, &data] {
            return nn::make_model(run->model, model_options(*run, data, Device::meta()));
          },
      .make_updating = [run](nn::Module& model) { return make_updating(run->optimizer, model); },
      .trainer = std::move(trainer),
      .size = flags.size,
      .batch = batch,
      .updates = data.batches(flags),
      .effective_batch = flags.effective_batch,
      .evaluated = evaluated(data),
      .op_times = flags.op_times};
}

double relative_time(const TrainFlags& flags, const TrainData& data) {
  RehearsalOptions asked = rehearsal_of(flags, data, flags.batch);
  RehearsalOptions whole = asked;
  whole.batch = asked.update_images();
  whole.trainer.recompute = {};
  return predicted_seconds(asked) / predicted_seconds(whole);
}

MemoryPlan predict_memory(const TrainFlags& flags, const TrainData& data, int64_t batch) {
  RehearsalOptions options = rehearsal_of(flags, data, batch);
  auto program = [&](const auto& state_is_held) { rehearse(options, state_is_held); };
  RehearsedPlan training =
      plan_under(flags.planner, program,
                 {.identity = identity_of(flags, data, batch), .capacity = flags.limit()});
  return {.predicted = training.predicted, .training = std::move(training)};
}

int64_t least_bytes(TrainFlags flags, const TrainData& data) {
  set_segments(flags, data);
  int64_t batch = flags.least_batch > 0 ? flags.least_batch : flags.batch;
  for (;; batch += flags.batch_multiple) {
    try {
      if (!flags.plans_recompute())
        return predict_memory(flags, data, batch).predicted.peak_reserved;
      const TrainingSetup setup{rehearsal_of(flags, data, batch), flags.planner};
      return choose_recomputation(setup, /*limit=*/1, means_of(flags)).memory.peak_reserved;
    } catch (const ValueError&) {
      if (batch >= flags.batch) throw;  // batch norm wants two values per channel
    }
  }
}

void choose_batch(TrainFlags& flags, const TrainData& data, Events& events) {
  if (flags.batch > 0) return;
  set_segments(flags, data);
  constexpr int64_t kMost = 1 << 20;  // of random pixels
  int64_t images = data.train_set ? data.train_set->size() : kMost;
  if (flags.effective_batch > 0) images = flags.effective_batch;
  RecomputeMeans means = means_of(flags);
  means.search_least = false;  // of batches that are too large
  auto rehearsal = [&](int64_t batch) {
    RehearsalOptions options = rehearsal_of(flags, data, batch);
    if (flags.plans_recompute())
      options.trainer.recompute =
          choose_recomputation({options, flags.planner}, flags.limit(), means).recompute;
    return options;
  };
  BatchTuning tuning{.rehearsal = rehearsal,
                     .planner = flags.planner,
                     .limit = flags.limit(),
                     .most = flags.max_batch > 0 ? std::min(flags.max_batch, images) : images,
                     .multiple = flags.batch_multiple,
                     .update_images = flags.effective_batch};
  auto start = std::chrono::steady_clock::now();
  TunedBatch tuned = tune_batch(tuning);
  // Its images wait in the loader, whose slots take of the same memory.
  if (const int64_t left = with_batch(flags, tuned.batch).limit();
      tuned.batch > 0 && tuned.memory.peak_reserved > left) {
    tuning.limit = left;
    tuned = tune_batch(tuning);
  }
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  flags = with_batch(flags, tuned.batch > 0 ? tuned.batch : tuned.least);
  flags.least_batch = tuned.least;
  if (tuned.batch == 0) refuse(flags, data, tuned.memory, events);
  const bool says = !flags.quiet && !events.owns_stdout();
  if (flags.batch_text == kFastestBatch) return take_fastest(flags, data, tuned, says);
  if (!says) return;
  std::string beyond =
      tuned.next_takes > 0
          ? fmt::format("{} would take {}", tuned.largest + tuning.multiple,
                        in_mib(tuned.next_takes))
          : fmt::format("{} {}",
                        tuning.most == flags.effective_batch ? "the images of an update are"
                        : flags.max_batch > 0                ? "--max-batch is"
                                                             : "the images are",
                        tuning.most);
  std::string found = tuned.batch == tuned.largest
                          ? fmt::format("the largest that fits {}", in_mib(tuning.limit))
                          : fmt::format("{} equal parts of {} images, where up to {} fit {}",
                                        count_parts(flags.update_images(), tuned.batch),
                                        flags.update_images(), tuned.largest, in_mib(tuning.limit));
  fmt::print("batch {}: {}, with {}; {} ({} rehearsals, {:.2f} s)\n", tuned.batch, found,
             in_mib(tuned.memory.peak_reserved), beyond, tuned.rehearsals, seconds.count());
}

void choose_precision(TrainFlags& flags, const TrainData& data, const Events& events) {
  if (flags.precision_text != "auto") return;
  flags.precision_text = "f32";
  TrainFlags wide = flags;
  set_segments(wide, data);
  const int64_t peak = predict_memory(wide, data, wide.batch).predicted.peak_reserved;
  if (peak <= flags.limit()) return;
  flags.precision_text = "bf16";
  if (!fits_when_planned(flags, data) && fits_when_planned(wide, data))
    flags.precision_text = "f32";
  if (flags.precision_text == "f32" || flags.quiet || events.owns_stdout()) return;
  fmt::print("bf16: in float32 a step would take {} of {}\n", in_mib(peak), in_mib(flags.limit()));
}

std::optional<RecomputeChoice> choose_recompute(TrainFlags& flags, const TrainData& data,
                                                Events& events) {
  set_segments(flags, data);
  if (!flags.plans_recompute() || take_kept_choice(flags, data)) return {};
  const TrainingSetup setup{rehearsal_of(flags, data, flags.batch), flags.planner};
  RecomputeChoice choice = choose_recomputation(setup, flags.limit(), means_of(flags));
  if (choice.plan.fates.empty()) return {};
  if (!choice.fits) {
    flags.least_planned = choice.memory.peak_reserved;
    return {};
  }
  flags.recompute = choice.recompute;
  flags.dropped = choice.dropped;
  flags.offloaded = choice.offloaded;
  if (flags.quiet || events.owns_stdout()) return choice;
  const memory::RecomputePlan& plan = choice.plan;
  const double percent = 100 / (plan.seconds - plan.extra_seconds);
  fmt::print("{} for {}: {} at {:.1f}% more time, predicted; at least {:.1f}% ({:.2f} s)\n",
             text_of(choice), in_mib(flags.limit()), in_mib(choice.memory.peak_reserved),
             percent * plan.extra_seconds, percent * plan.bound_seconds, choice.seconds);
  return choice;
}

MemoryPlan plan_memory(const TrainFlags& flags, const TrainData& data, Events& events,
                       std::optional<MemoryPlan> kept) {
  MemoryPlan plan = kept ? std::move(*kept) : find_plan(flags, data);
  const StepMemory& need = plan.predicted;
  if (need.peak_reserved > flags.limit()) refuse(flags, data, need, events);
  const bool wants_trace = !flags.trace.empty() || !flags.save_plan.empty();
  if (wants_trace && plan.training.trace.buffers.empty())
    plan.training.trace = trace_on_meta([&](const auto& state_is_held) {
      rehearse(rehearsal_of(flags, data, flags.batch), state_is_held);
    });
  Json event{{"event", "plan"},
             {"batch", flags.batch},
             {"micro_batches", count_parts(flags.update_images(), flags.batch)},
             {"effective_batch", flags.update_images()},
             {"predicted_peak_bytes", need.peak_reserved},
             {"predicted_peak_live_bytes", need.peak_live},
             {"relative_time", relative_time(flags, data)},
             {"remedies", remedies_in_force(flags)},
             {"precision", flags.precision_text},
             {"plan_from", plan.from}};
  event["context_bytes"] = context_bytes(flags);
  if (flags.host) {
    event["available_bytes"] = flags.host->bound.available;
    event["process_bytes"] = flags.host->process;
  }
  if (flags.budget > 0) event["budget_bytes"] = flags.budget;
  events.write(event);
  return plan;
}

void keep_plan(const TrainFlags& flags, const TrainData& data, const MemoryPlan& plan) {
  if (!flags.save_plan.empty())
    save_plan(flags.save_plan, plan.training, choice_to_keep(flags, data),
              engines_to_keep(flags.device));
}

}  // namespace brim::apps
