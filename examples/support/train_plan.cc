#include "brim/examples/support/train_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>

#include "brim/base/bytes.h"
#include "brim/examples/support/plan_file.h"
#include "brim/examples/support/program.h"
#include "brim/examples/support/run_identity.h"
#include "brim/examples/support/train_speed.h"
#include "brim/memory/arena_planner.h"
#include "brim/train/kept_plan.h"
#include "brim/train/parts.h"
#include "brim/train/predicted_time.h"

namespace brim::examples {
namespace {

int64_t evaluated(const TrainData& data) { return data.val_set ? data.val_set->size() : 0; }

/// The smallest budget whose limit is `bytes`.
int64_t budget_for(const TrainFlags& flags, int64_t bytes) {
  TrainFlags other = flags;
  other.budget = static_cast<int64_t>(static_cast<double>(bytes) / (1 - flags.margin / 100));
  while (other.limit() < bytes) ++other.budget;
  return other.budget;
}

/// The remedies with which least is held.
const Rung& least_rung(const LadderResult& ladder) {
  return *std::ranges::min_element(ladder.considered, {},
                                   [](const Rung& rung) { return rung.memory.peak_reserved; });
}

/// With any remedy, or fewer images.
int64_t least_bytes(const SmallerBatch& found, const LadderResult& ladder) {
  return std::min(found.least.memory.peak_reserved, least_rung(ladder).memory.peak_reserved);
}

std::string message_of(const SmallerBatch& found, const LadderResult& ladder,
                       const TrainFlags& flags, const StepMemory& need) {
  std::string remedy;
  for (const Rung& rung : ladder.considered)
    if (rung.fits) remedy += fmt::format("; it fits with {}", fmt::join(rung.remedies, ", "));
  if (found.fits) {
    remedy += fmt::format("; batch {} fits", found.fits->batch);
  } else if (remedy.empty()) {
    const int64_t budget = budget_for(flags, least_bytes(found, ladder));
    remedy = fmt::format("; the least budget that would do is {} ({} bytes)", format_bytes(budget),
                         budget);
    if (found.least.memory.peak_reserved <= least_bytes(found, ladder))
      remedy += fmt::format(", at batch {}", found.least.batch);
    else
      remedy += fmt::format(", with {}", fmt::join(least_rung(ladder).remedies, ", "));
  }
  std::string why =
      need.state > flags.limit()
          ? fmt::format("parameters, buffers and optimizer state alone take {} ({} bytes)",
                        format_bytes(need.state), need.state)
          : fmt::format("a step at batch {} takes {} ({} bytes)", flags.batch,
                        format_bytes(need.peak_reserved), need.peak_reserved);
  return fmt::format("{} does not fit {}the {} of {} ({} bytes): {}{}", flags.model,
                     flags.margin > 0 ? "what a margin leaves of " : "",
                     flags.budget > 0 ? "budget" : "machine's memory",
                     format_bytes(flags.all_bytes()), flags.all_bytes(), why, remedy);
}

[[noreturn]] void refuse(const TrainFlags& flags, const TrainData& data, const StepMemory& need,
                         Events& events) {
  Refusal refusal = refusal_of(flags, data, need, climb_ladder(flags, data));
  events.write({{"event", "refused"},
                {"needed_bytes", need.peak_reserved},
                {"budget_bytes", flags.budget > 0 ? flags.budget : flags.limit()},
                {"least_possible_bytes", refusal.least},
                {"fits", refusal.fits}});
  throw DoesNotFit{refusal.message};
}

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

/// What `choose_recomputation` is asked.
std::string question_of(const TrainFlags& flags, const TrainData& data) {
  RehearsalOptions asked = rehearsal_of(flags, data, flags.batch);
  asked.trainer.recompute.name = fmt::format("auto within {} bytes, {}, offload {}", flags.limit(),
                                             flags.recompute_text, flags.offloads());
  return bytes_identity(flags, data, asked);
}

/// That of `--plan`, where it is for the same question: what is wrong with the file is said when
/// the plan itself is taken.
bool take_kept_choice(TrainFlags& flags, const TrainData& data) {
  if (flags.plan.empty()) return false;
  try {
    std::optional<KeptChoice> kept = load_choice(flags.plan, question_of(flags, data));
    if (!kept) return false;
    if (kept->recompute.fates) flags.recompute = std::move(kept->recompute);
    flags.dropped = kept->dropped;
    flags.offloaded = kept->offloaded;
    return true;
  } catch (const FileError&) {
    return false;
  }
}

std::optional<KeptChoice> choice_to_keep(const TrainFlags& flags, const TrainData& data) {
  if (!flags.plans_recompute()) return {};
  return KeptChoice{question_of(flags, data), flags.recompute, flags.dropped, flags.offloaded};
}

/// From `--plan`, where that is the answer; else made.
MemoryPlan find_plan(const TrainFlags& flags, const TrainData& data) {
  if (flags.plan.empty()) return predict_memory(flags, data, flags.batch);
  try {
    TrainingPlan kept = load_plan(flags.plan, identity_of(flags, data, flags.batch));
    return {.from = "file", .predicted = kept.predicted, .training = std::move(kept)};
  } catch (const FileError& error) {
    std::cerr << "train: " << error.what() << "; planning again" << std::endl;
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

/// Nothing where the model cannot train with so few images.
std::optional<StepMemory> prediction_if_any(const TrainFlags& flags, const TrainData& data,
                                            int64_t batch) {
  try {
    return predict_memory(flags, data, batch).predicted;
  } catch (const ValueError&) {
    return {};  // batch norm wants two values per channel
  }
}

RecomputeMeans means_of(const TrainFlags& flags) { return {.drop = flags.recompute_text != "off"}; }

/// As many calls in each as there are in a step, of any batch, over their number.
void set_segments(TrainFlags& flags, const TrainData& data) {
  if (flags.segments == 0) return;
  constexpr int64_t kAnyBatch = 2;  // batch norm wants two values
  const auto calls = std::ssize(record_step(rehearsal_of(flags, data, kAnyBatch)).values);
  flags.recompute = segmented_recomputation(flags.segments, ceil_div(calls, flags.segments));
}

double time_per_image(const TrainFlags& flags, const TrainData& data, int64_t batch) {
  RehearsalOptions options = rehearsal_of(flags, data, batch);
  return predicted_seconds(options) / static_cast<double>(options.update_images());
}

Json remedies_in_force(const TrainFlags& flags) {
  Json remedies = Json::array();
  if (flags.dropped > 0 || flags.segments > 0) remedies.push_back("recompute");
  if (flags.offloaded > 0) remedies.push_back("offload");
  if (flags.update_images() > flags.batch) remedies.push_back("micro-batches");
  if (flags.fused_update) remedies.push_back("fused update");
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

LadderResult climb_ladder(const TrainFlags& flags, const TrainData& data) {
  return standard_ladder().climb({rehearsal_of(flags, data, flags.batch), flags.planner},
                                 {.limit = flags.limit()});
}

Refusal refusal_of(const TrainFlags& flags, const TrainData& data, const StepMemory& need,
                   const LadderResult& ladder) {
  auto plan = [&](int64_t batch) {
    return batch == flags.batch ? need : prediction_if_any(flags, data, batch);
  };
  SmallerBatch found = find_smaller_batch(plan, flags.batch, flags.limit());
  Json fits = Json::array();
  auto add = [&](const std::string& remedy, const StepMemory& memory, double relative_time) {
    fits.push_back({{"remedy", remedy},
                    {"predicted_peak_bytes", memory.peak_reserved},
                    {"relative_time", relative_time}});
  };
  for (const Rung& rung : ladder.considered)
    if (rung.fits)
      add(fmt::format("{}", fmt::join(rung.remedies, ", ")), rung.memory, rung.relative_time);
  if (found.fits)
    add(fmt::format("batch {}", found.fits->batch), found.fits->memory,
        time_per_image(flags, data, found.fits->batch) / time_per_image(flags, data, flags.batch));
  return {found, least_bytes(found, ladder), message_of(found, ladder, flags, need), fits};
}

memory::MakePlanner MemoryPlan::planner(const TrainFlags& flags) const {
  return training.plan ? memory::arena_planner(training.plan, {.device = flags.device})
                       : memory::planner_named(flags.planner);
}

RehearsalOptions rehearsal_of(const TrainFlags& asked, const TrainData& data, int64_t batch) {
  auto run = std::make_shared<const TrainFlags>(with_batch(asked, batch));
  const TrainFlags& flags = *run;
  return {
      .make_model =
          [run, &data] {
            return nn::make_model(run->model, model_options(*run, data, Device::meta()));
          },
      .make_updating = [run](nn::Module& model) { return make_updating(run->optimizer, model); },
      .trainer = trainer_options(flags, data),
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
  TrainingPlan training =
      plan_under(flags.planner, program,
                 {.identity = identity_of(flags, data, batch), .capacity = flags.limit()});
  return {.predicted = training.predicted, .training = std::move(training)};
}

void choose_batch(TrainFlags& flags, const TrainData& data, Events& events) {
  if (flags.batch > 0) return;
  set_segments(flags, data);
  constexpr int64_t kMost = 1 << 20;  // of random pixels
  int64_t images = data.train_set ? data.train_set->size() : kMost;
  if (flags.effective_batch > 0) images = flags.effective_batch;
  auto rehearsal = [&](int64_t batch) {
    RehearsalOptions options = rehearsal_of(flags, data, batch);
    if (flags.plans_recompute())
      options.trainer.recompute =
          choose_recomputation({options, flags.planner}, flags.limit(), means_of(flags)).recompute;
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
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  flags = with_batch(flags, tuned.batch > 0 ? tuned.batch : tuned.least);
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

std::optional<RecomputeChoice> choose_recompute(TrainFlags& flags, const TrainData& data,
                                                Events& events) {
  set_segments(flags, data);
  if (!flags.plans_recompute() || take_kept_choice(flags, data)) return {};
  const TrainingSetup setup{rehearsal_of(flags, data, flags.batch), flags.planner};
  RecomputeChoice choice = choose_recomputation(setup, flags.limit(), means_of(flags));
  if (choice.plan.fates.empty()) return {};
  if (!choice.fits) return choice;
  flags.recompute = choice.recompute;
  flags.dropped = choice.dropped;
  flags.offloaded = choice.offloaded;
  if (!flags.quiet && !events.owns_stdout())
    fmt::print("{} for {}: {} at {:.1f}% more time, predicted ({:.2f} s)\n", text_of(choice),
               in_mib(flags.limit()), in_mib(choice.memory.peak_reserved),
               100 * choice.plan.extra_seconds / (choice.plan.seconds - choice.plan.extra_seconds),
               choice.seconds);
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
  if (!flags.save_plan.empty())
    save_plan(flags.save_plan, plan.training, choice_to_keep(flags, data));
  Json event{{"event", "plan"},
             {"batch", flags.batch},
             {"micro_batches", count_parts(flags.update_images(), flags.batch)},
             {"effective_batch", flags.update_images()},
             {"predicted_peak_bytes", need.peak_reserved},
             {"predicted_peak_live_bytes", need.peak_live},
             {"relative_time", relative_time(flags, data)},
             {"op_times", flags.op_times_text},
             {"remedies", remedies_in_force(flags)},
             {"precision", "f32"},
             {"plan_from", plan.from}};
  if (flags.budget > 0) event["budget_bytes"] = flags.budget;
  events.write(event);
  return plan;
}

}  // namespace brim::examples
