#include "brim/apps/support/train_checkpoints.h"

#include <cstdlib>

#include "brim/base/instructions.h"
#include "brim/base/parallel.h"
#include "brim/apps/support/algorithm_flags.h"
#include "brim/apps/support/flag_values.h"
#include "brim/apps/support/run_identity.h"
#include "brim/ops/library_version.h"

namespace brim::apps {
namespace {

/// What changes the numbers by rounding alone.
io::Metadata notes_of(const TrainFlags& flags, int64_t micro_batch) {
  io::Metadata notes{{"micro-batch", fmt::format("{}", micro_batch)},
                     {"budget", fmt::format("{}", flags.budget)},
                     {"planner", flags.planner},
                     {"threads", fmt::format("{}", num_threads())},
                     {"instructions", std::string(to_string(instructions()))},
                     {kLibraryNote, library_version()}};
  if (std::string engines = engines_to_keep(flags.device); !engines.empty())
    notes.emplace(kEnginesNote, std::move(engines));
  return notes;
}

optim::Schedule schedule_of(TrainFlags flags, const TrainData& data, int64_t steps) {
  flags.steps = steps;
  return trainer_options(flags, data).schedule;
}

/// Nothing where the rates of the updates that are done are those of a training of so many.
std::optional<std::string> why_not_so_many_steps(const Checkpoint& found, const TrainFlags& flags,
                                                 const TrainData& data) {
  const int64_t steps = data.steps(flags), attempts = found.updates + found.skipped;
  if (attempts > steps) return fmt::format("{} are done already", attempts);
  const auto setting = found.identity.find(kStepsSetting);
  const int64_t before =
      setting == found.identity.end() ? 0 : std::strtoll(setting->second.c_str(), nullptr, 10);
  if (before < 1) return "";
  const optim::Schedule was = schedule_of(flags, data, before),
                        is = schedule_of(flags, data, steps);
  for (int64_t update = 0; update < found.updates; ++update)
    if (was.rate(update) != is.rate(update))
      return fmt::format(
          "with --schedule {} update {} would have had another rate: --schedule constant takes "
          "more steps later; to train on with new rates give its weights to --init, and another "
          "folder to --checkpoint",
          flags.schedule, update + 1);
  return {};
}

}  // namespace

void add_checkpoint_flags(App& app, TrainFlags& f) {
  app.add_option("--checkpoint", f.checkpoint,
                 "keep checkpoints in this folder, one after each epoch; Ctrl-C and other signals "
                 "that end, "
                 "and errors, then leave one; SIGUSR1 asks for one")
      .type_name("DIR")
      .check(file_name());
  app.add_option("--checkpoint-every", f.checkpoint_every, "and one after so many updates each")
      .check(whole_number(1));
  app.add_option("--keep", f.keep, "so many checkpoints").shows_default().check(whole_number(1));
  app.add_flag("--resume", f.resume, "go on from the newest checkpoint, if there is one");
}

std::string kept_plan(const TrainFlags& flags) {
  if (!flags.resume || flags.checkpoint.empty() || !flags.plan.empty()) return "";
  NewestCheckpoint found = newest_checkpoint_in(flags.checkpoint);
  return found.checkpoint ? found.checkpoint->plan : "";
}

std::shared_ptr<io::FolderLock> lock_checkpoints(const TrainFlags& flags) {
  return flags.checkpoint.empty() ? nullptr : brim::lock_checkpoints(flags.checkpoint);
}

std::string other_library(const io::Metadata& notes) {
  const auto library = notes.find(kLibraryNote);
  if (library == notes.end() || library->second == library_version()) return "";
  return fmt::format(
      "; it was computed with {}, and is now with {}: numbers are the same up to rounding",
      library->second, library_version());
}

RunCheckpoints::RunCheckpoints(const TrainFlags& flags, const TrainData& data,
                               std::shared_ptr<io::FolderLock> lock)
    : flags_(flags) {
  if (flags.checkpoint.empty()) {
    expect<ValueError>(!flags.resume && flags.checkpoint_every == 0, "flags",
                       "--{} needs --checkpoint DIR", flags.resume ? "resume" : "checkpoint-every");
    return;
  }
  const io::Metadata identity = numbers_identity(flags, data);
  checkpoints_.emplace(
      flags.checkpoint,
      CheckpointOptions{.keep = flags.keep,
                        .identity = identity,
                        .where_known = identity_of_files(),
                        .why_not = [&flags, &data, identity](
                                       const Checkpoint& found,
                                       const std::string& name) -> std::optional<std::string> {
                          if (name == kStepsSetting)
                            return why_not_so_many_steps(found, flags, data);
                          if (name == kDataSetting && know_files(found.identity, identity))
                            return {};
                          return "";
                        },
                        .lock = std::move(lock)});
  knows_files_ = data.format.has_value();
  const std::vector<std::string> files = checkpoints_->files();
  expect<FileError>(flags.resume || files.empty(), "checkpoints",
                    "'{}' is there already: go on from it with --resume, or take another folder",
                    files.empty() ? "" : files.front());
  note_micro_batch(flags.batch);
}

std::string RunCheckpoints::lock_warning() const {
  if (!checkpoints_ || checkpoints_->lock()->why_open().empty()) return "";
  return fmt::format(
      "the file system of '{}' has no locks ({}): see to it that no other run uses the folder",
      flags_.checkpoint, checkpoints_->lock()->why_open());
}

std::string RunCheckpoints::resume(Trainer& trainer) {
  if (!flags_.resume) return {};
  NewestCheckpoint found = trainer.resume();
  std::string text;
  for (const std::string& bad : found.passed_over) text += fmt::format("passed over: {}\n", bad);
  expect<FileError>(found.checkpoint || found.passed_over.empty(), "checkpoints",
                    "no checkpoint in '{}' is whole; the newest: {}. To start over take another "
                    "folder",
                    flags_.checkpoint, found.passed_over.empty() ? "" : found.passed_over.front());
  if (!found.checkpoint)
    return text + fmt::format("no checkpoint in {}: training from the start", flags_.checkpoint);
  newest_ = found.checkpoint->path;
  text += fmt::format("going on from {}, after {} updates", found.checkpoint->path,
                      found.checkpoint->updates);
  if (knows_files_ && !found.checkpoint->identity.contains(kListOfClasses))
    text += "; it does not say its classes and images, which may be others";
  return text + other_library(found.checkpoint->notes);
}

void RunCheckpoints::note_micro_batch(int64_t images) {
  if (checkpoints_) checkpoints_->set_notes(notes_of(flags_, images));
}

std::string RunCheckpoints::note_written(const std::string& path) {
  newest_ = path;
  const std::string_view signal = StopSignal::checkpoint_wish();
  StopSignal::forget_checkpoint_wish();
  return signal.empty() ? "" : fmt::format("{}: wrote {}", signal, path);
}

std::string RunCheckpoints::unheard_wish() const {
  const std::string_view signal = StopSignal::checkpoint_wish();
  if (checkpoints_ || signal.empty()) return "";
  StopSignal::forget_checkpoint_wish();
  return fmt::format("{}: no checkpoint is written without --checkpoint DIR", signal);
}

std::string RunCheckpoints::how_to_go_on() const {
  if (newest_.empty()) return "";
  const std::string how = flags_.batch_text == kFastestBatch
                              ? fmt::format("--batch {} and --resume", flags_.batch)
                              : std::string("--resume");
  return fmt::format("the same command with {} goes on from {}", how, newest_);
}

std::string RunCheckpoints::stopped_message(const Trainer& trainer) const {
  const std::string done =
      fmt::format("stopped by {} after {} updates", StopSignal::name(), trainer.updates());
  if (!checkpoints_) return done + ", which are lost: --checkpoint DIR would have kept them";
  return fmt::format("{}; {}", done,
                     newest_.empty() ? "there was nothing to keep yet" : how_to_go_on());
}

}  // namespace brim::apps
