#include "brim/apps/support/train_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "brim/base/bytes.h"
#include "brim/base/cuda/context.h"
#include "brim/base/parallel.h"
#include "brim/core/slow_launches.h"
#include "brim/apps/support/planned_device.h"
#include "brim/apps/support/prune_goal.h"
#include "brim/memory/host_memory.h"
#include "brim/ops/autocast.h"
#include "brim/train/parts.h"

namespace brim::apps {
namespace {

Progress::Plan progress_plan(const TrainFlags& flags, const TrainData& data, const Events& events) {
  int64_t steps = data.steps(flags), batches = data.batches(flags);
  return {.steps = steps,
          .steps_per_epoch = std::min(batches, steps),
          .epochs = (steps + batches - 1) / batches,
          .device = flags.device,
          .quiet = flags.quiet || events.owns_stdout(),
          .gradient_norm = flags.optimizer.clip.norm < optim::ClipOptions::kNone};
}

// The first steps warm caches and pages up.
double steady_median(std::vector<double> values) {
  if (values.size() >= 6)
    values.erase(values.begin(), values.begin() + 3);
  else if (values.size() >= 2)
    values.erase(values.begin());
  std::ranges::sort(values);
  size_t n = values.size();
  return n == 0 ? 0 : (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/// How the prediction did, for people.
std::string against(int64_t predicted, int64_t measured) {
  if (predicted == measured) return " as predicted";
  return fmt::format(" ({} bytes {} than predicted)", std::abs(measured - predicted),
                     measured > predicted ? "more" : "less");
}

std::string batches_of(int64_t images, int64_t batch) {
  int64_t parts = count_parts(images, batch);
  if (parts == 1) return fmt::format("batch {}", batch);
  return fmt::format("batch {} in {} micro-batches of {}", images, parts, batch);
}

bool has_batch_norm(nn::Module& model) {
  return std::ranges::any_of(model.named_modules(), [](const nn::NamedModule& part) {
    return part.module.kind() == "BatchNorm2d";
  });
}

/// Of what the process holds, the images that it kept; "" where there are none.
std::string cached_images(const TrainData& data) {
  const int64_t bytes = data.cached_bytes();
  return bytes == 0 ? "" : ", with " + format_bytes(bytes) + " of images";
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

}  // namespace

TrainReport::TrainReport(const TrainFlags& flags, const TrainData& data, nn::Module& model,
                         Events& events)
    : flags_(flags),
      data_(data),
      events_(events),
      progress_(progress_plan(flags, data, events)),
      notes_(data) {
  std::string images = data.train_set ? fmt::format("{} images, {} to validate",
                                                    data.train_set->size(), data.val_set->size())
                                      : "random pixels";
  progress_.say(fmt::format(
      "{} ({} parameters) on {}: {}, {} classes, {}x{}, {}, {} steps, {} threads", flags.model,
      model.parameter_count(), flags.data, images, data.classes, flags.size, flags.size,
      batches_of(flags.update_images(), flags.batch), data.steps(flags), num_threads()));
  say_data_notes();
  say_gpu(flags, data);
  if (is_low_precision(flags.precision()))
    progress_.say(
        fmt::format("precision: {} between ops{}", to_string(flags.precision()),
                    has_native_products(flags.precision(), flags.device)
                        ? ""
                        : "; its products are computed in float32 on this processor: fewer bytes, "
                          "but more time"));
  progress_.say(describe(flags.optimizer, flags.update_images(), flags.warmup, model));
  if (flags.update_images() > flags.batch && has_batch_norm(model))
    progress_.say(
        fmt::format("batch norm: each micro-batch is normalised by itself, as with batch {}; "
                    "running statistics "
                    "are of all {} images of an update",
                    flags.batch, flags.update_images()));
}

void TrainReport::say_gpu(const TrainFlags& flags, const TrainData& data) {
  if (!flags.gpu) return;
  progress_.say(fmt::format("{}: {}", to_string(flags.device), flags.gpu->use));
  for (const data::Loader* loader : {data.train_loader.get(), data.validation.get()})
    if (loader != nullptr && !loader->why_plain().empty())
      return progress_.say(
          "batches wait in memory that is not pinned, and the host with them while they are "
          "copied: " +
          loader->why_plain());
}

/// Once the first updates have run all that a step runs, and recorded it. They are not timed.
void TrainReport::note_growth() {
  constexpr size_t kFirst = 3;
  if (!flags_.gpu || seconds_.size() >= kFirst) return;
  growth_ = cuda::context_growth(flags_.device, memory::account(flags_.device)->stats().reserved);
}

void TrainReport::say_process(int64_t peak_reserved) {
  if (!flags_.gpu) return;
  if (!flags_.gpu->context_is_known)
    return progress_.say("process on the GPU: not known, since its context was not measured");
  const int64_t context = flags_.gpu->context;
  progress_.say(fmt::format(
      "process on the GPU: {} at its peak, {} reserved and a context of {}{}",
      format_bytes(context + peak_reserved), format_bytes(peak_reserved), format_bytes(context),
      growth_.value_or(0) == 0
          ? ""
          : fmt::format(", which the first updates changed by {} bytes", *growth_)));
}

void TrainReport::say_data_notes() {
  for (const std::string& line : notes_.next()) progress_.say(line);
}

void TrainReport::step(const StepReport& report) {
  double rate = static_cast<double>(report.images) / report.seconds;
  note_growth();
  seconds_.push_back(report.seconds);
  rates_.push_back(rate);
  say_data_notes();
  if (report.skipped)
    progress_.say(fmt::format("step {} is skipped, an overflow with the loss times {}: {}",
                              report.step, report.scale, report.skipped->text));
  progress_.step(report);
  events_.write({{"event", "step"},
                 {"step", report.step},
                 {"loss", report.loss},
                 {"images_per_second", rate},
                 {"peak_bytes", memory::account(flags_.device)->stats().peak_reserved},
                 {"scale", report.scale},
                 {"applied", !report.skipped.has_value()}});
}

void TrainReport::epoch(const EpochReport& report) {
  if (report.validation) {
    accuracy_ = report.validation->accuracy;
    top5_ = report.validation->top5;
  }
  say_data_notes();
  progress_.epoch(report);
  events_.write({{"event", "epoch"},
                 {"epoch", report.epoch},
                 {"train_loss", report.train_loss},
                 {"val_accuracy", or_null(accuracy_)}});
}

void TrainReport::say(const std::string& line) {
  if (!line.empty()) progress_.say(line);
}

void TrainReport::prune(const PruneReport& report) {
  const std::string goal = parse_goal(flags_.prune.to, "--prune-to").name;
  progress_.say(fmt::format(
      "step {}: removed {:.1f}% of the channels that could go; {} is {:.3f} of "
      "what it was, {} parameters",
      report.step, 100 * report.removed, goal, report.cost / report.before, report.parameters));
  events_.write({{"event", "prune"},
                 {"step", report.step},
                 {"goal", goal},
                 {"cost", report.cost},
                 {"before", report.before},
                 {"removed", report.removed},
                 {"parameters", report.parameters}});
}

void TrainReport::replan(const ReplanReport& report) {
  replanned_reserved_ = std::max(replanned_reserved_, report.predicted.peak_reserved);
  replanned_live_ = std::max(replanned_live_, report.predicted.peak_live);
  progress_.say(fmt::format("step {}: {}; planned again for {}: {}, peak {}", report.step,
                            report.why, format_bytes(report.capacity),
                            batches_of(flags_.update_images(), report.micro_batch),
                            format_bytes(report.predicted.peak_reserved)));
  events_.write({{"event", "replan"},
                 {"step", report.step},
                 {"why", report.why},
                 {"batch", report.micro_batch},
                 {"micro_batches", report.micro_batches},
                 {"effective_batch", flags_.update_images()},
                 {"budget_bytes", report.capacity},
                 {"predicted_peak_bytes", report.predicted.peak_reserved}});
}

void TrainReport::done(const StepMemory& first, const Trainer& trainer) {
  const int64_t reserved = std::max(first.peak_reserved, replanned_reserved_),
                live = std::max(first.peak_live, replanned_live_);
  auto stats = memory::account(flags_.device)->stats();
  if (!accuracy_) {  // of a run that was done when it was resumed
    accuracy_ = trainer.progress().accuracy;
    top5_ = trainer.progress().top5;
  }
  const bool over_budget = flags_.budget > 0 && stats.peak_reserved > flags_.budget;
  const int64_t skipped = skipped_images(data_);
  std::string accuracy = accuracy_ ? fmt::format("accuracy {:.2f}%, ", 100 * *accuracy_) : "";
  if (top5_ && data_.classes > 5) accuracy += fmt::format("top-5 {:.2f}%, ", 100 * *top5_);
  progress_.say(fmt::format("done: {}{:.1f} images/s, peak {} reserved{}, {} live{}; process {}{}",
                            accuracy, steady_median(rates_), format_bytes(stats.peak_reserved),
                            against(reserved, stats.peak_reserved), format_bytes(stats.peak_live),
                            against(live, stats.peak_live),
                            format_bytes(memory::resident_memory().peak), cached_images(data_)));
  say_process(stats.peak_reserved);
  if (stats.mismatches > 0)
    progress_.say(fmt::format("{} requests were not as planned", stats.mismatches));
  if (const std::string slow = to_string(slow_launches()); !slow.empty())
    progress_.say("slower on this GPU than they might be: " + slow);
  if (flags_.replay)
    progress_.say(fmt::format(
        "{} of {} updates were started from a graph{}{}", trainer.graph_updates(),
        trainer.updates(),
        trainer.why_no_graph().empty() ? "" : "; the last was not: ", trainer.why_no_graph()));
  if (trainer.skipped() > 0)
    progress_.say(fmt::format("{} of {} steps were skipped for an overflow; the loss scale is {}",
                              trainer.skipped(), trainer.skipped() + trainer.updates(),
                              trainer.loss_scale()));
  if (skipped > 0)
    progress_.say(fmt::format("{} bad image{} skipped", skipped, skipped == 1 ? " was" : "s were"));
  Json event{{"event", "done"},
             {"images_per_second", steady_median(rates_)},
             {"step_seconds", steady_median(seconds_)},
             {"peak_bytes", stats.peak_reserved},
             {"predicted_peak_bytes", reserved},
             {"peak_live_bytes", stats.peak_live},
             {"predicted_peak_live_bytes", live},
             {"mismatches", stats.mismatches},
             {"val_accuracy", or_null(accuracy_)},
             {"val_top5", or_null(top5_)},
             {"batch", trainer.micro_batch()},
             {"micro_batches", count_parts(flags_.update_images(), trainer.micro_batch())},
             {"effective_batch", flags_.update_images()},
             {"budget_violations", trainer.counts().violations + (over_budget ? 1 : 0)},
             {"oom_events", trainer.counts().out_of_memory},
             {"skipped_steps", trainer.skipped()},
             {"skipped_images", skipped},
             {"final_scale", trainer.loss_scale()},
             {"precision", flags_.precision_text},
             {"context_bytes", context_bytes(flags_)},
             {"context_growth_bytes", growth_ ? Json(*growth_) : Json(nullptr)}};
  if (data_.host != nullptr) event["pinned_bytes"] = data_.host->stats().peak_reserved;
  if (flags_.budget > 0) event["budget_bytes"] = flags_.budget;
  if (flags_.replay) {
    event["graph_steps"] = trainer.graph_updates();
    event["why_no_graph"] = trainer.why_no_graph();
  }
  events_.write(event);
}

}  // namespace brim::apps
