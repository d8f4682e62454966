#include "brim/apps/support/algorithm_flags.h"

#include <iostream>

#include "brim/apps/support/output.h"
#include "brim/apps/support/plan_file.h"
#include "brim/apps/support/planned_device.h"
#include "brim/apps/support/train_plan.h"
#include "brim/ops/tf32.h"
#include "brim/train/checkpoint.h"
#include "brim/train/engine_file.h"

namespace brim::apps {
namespace {

void say(const std::string& text) { std::cerr << shown(text) << std::endl; }

/// Offers what `text` has, which is from `where`.
void offer(Device device, const std::string& text, const std::string& where) {
  if (text.empty()) return;
  try {
    engine_table(device).offer(engine_choices_from(text, engine_kind(device)));
  } catch (const FileError& refusal) {
    say(fmt::format("{} ({}); engines are chosen again", refusal.what(), where));
  }
}

std::string engines_in_checkpoint(const TrainFlags& flags) {
  if (!flags.resume || flags.checkpoint.empty()) return "";
  const NewestCheckpoint found = newest_checkpoint_in(flags.checkpoint);
  if (!found.checkpoint) return "";
  auto note = found.checkpoint->notes.find(kEnginesNote);
  return note == found.checkpoint->notes.end() ? "" : note->second;
}

// What is wrong with the file is said when the plan itself is taken.
std::string engines_in_plan(const TrainFlags& flags) {
  if (flags.plan.empty()) return "";
  try {
    return load_engines(flags.plan);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

void add_tf32_flag(App& app, bool& tf32) {
  app.add_flag("--tf32", tf32,
               "multiply float32 in TF32 on the GPU, which rounds it to 10 bits of mantissa: "
               "convolutions and matrix products on tensor cores, with other numbers");
}

void add_benchmark_flag(App& app, TrainFlags& flags) {
  app.add_flag(
      "--cudnn-benchmark", flags.cudnn_benchmark,
      "time cuDNN's engines for each convolution of the run before it is planned, and take "
      "the fastest; what was found is kept in the cache folder (see --op-times)");
}

void check_tf32(bool tf32, Device device, const std::string& name) {
  expect<ValueError>(!tf32 || device.is_cuda(), "flags",
                     "--tf32 is for a GPU's tensor cores: use --device cuda, not {}", name);
}

void check_algorithm_flags(const TrainFlags& flags) {
  check_tf32(flags.tf32, flags.device, flags.device_name);
  expect<ValueError>(!flags.cudnn_benchmark || flags.device.is_cuda(), "flags",
                     "--cudnn-benchmark times what a GPU does: use --device cuda, not {}",
                     flags.device_name);
  expect<ValueError>(!flags.cudnn_benchmark || flags.batch_text != kFastestBatch, "flags",
                     "--batch fastest times steps before engines are chosen: give "
                     "--cudnn-benchmark a number as --batch, or auto");
}

void set_algorithms(const TrainFlags& flags) {
  set_allow_tf32(flags.tf32);
  set_cudnn_benchmark(flags.cudnn_benchmark);
  // A card by its name has no libraries to be asked.
  if (!flags.device.is_cuda() || (flags.gpu && flags.gpu->card != nullptr)) return;
  offer(flags.device, engines_in_checkpoint(flags), "the checkpoint's");
  offer(flags.device, engines_in_plan(flags), flags.plan);
  take_up_engines(flags.device);
}

std::string engines_to_keep(Device device) {
  if (!device.is_cuda()) return "";
  const EngineChoices chosen = engine_table(device).chosen();
  return chosen.empty() ? "" : to_text(chosen, engine_kind(device));
}

EngineTiming::EngineTiming(const TrainFlags& flags) {
  if (!flags.cudnn_benchmark) return;
  source_ = source_for(flags);
  scope_.emplace(*source_);
}

void EngineTiming::finish(const TrainFlags& flags, const TrainData& data) {
  if (!scope_ || flags.batch == 0) return;
  trace_on_meta([&](const auto& state_is_held) {
    rehearse(rehearsal_of(flags, data, flags.batch), state_is_held);
  });
}

std::string EngineTiming::said() const {
  if (!scope_ || scope_->timed() + scope_->not_timed() == 0) return "";
  std::string text = fmt::format("cuDNN: timed the engines of {} convolutions", scope_->timed());
  if (scope_->not_timed() > 0)
    text += fmt::format("; {} could not be timed in {} bytes, and have those of its heuristics",
                        scope_->not_timed(), source_->capacity());
  return text;
}

}  // namespace brim::apps
