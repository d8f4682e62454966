#include "brim/examples/support/train_checkpoints.h"

#include <CLI/CLI.hpp>

#include "brim/base/instructions.h"
#include "brim/base/parallel.h"
#include "brim/examples/support/algorithm_flags.h"
#include "brim/examples/support/flag_values.h"
#include "brim/examples/support/run_identity.h"

namespace brim::examples {
namespace {

/// What changes the numbers by rounding alone.
io::Metadata notes_of(const TrainFlags& flags, int64_t micro_batch) {
  io::Metadata notes{{"micro-batch", fmt::format("{}", micro_batch)},
                     {"budget", fmt::format("{}", flags.budget)},
                     {"planner", flags.planner},
                     {"threads", fmt::format("{}", num_threads())},
                     {"instructions", std::string(to_string(instructions()))}};
  if (std::string engines = engines_to_keep(flags.device); !engines.empty())
    notes.emplace(kEnginesNote, std::move(engines));
  return notes;
}

}  // namespace

void add_checkpoint_flags(CLI::App& app, TrainFlags& f) {
  app.add_option("--checkpoint", f.checkpoint,
                 "keep checkpoints in this folder, one after each epoch; Ctrl-C then ends with one")
      ->type_name("DIR")
      ->check(file_name());
  app.add_option("--checkpoint-every", f.checkpoint_every, "and one after so many updates each")
      ->check(whole_number(1));
  app.add_option("--keep", f.keep, "so many checkpoints")
      ->capture_default_str()
      ->check(whole_number(1));
  app.add_flag("--resume", f.resume, "go on from the newest checkpoint, if there is one");
}

std::string kept_plan(const TrainFlags& flags) {
  if (!flags.resume || flags.checkpoint.empty() || !flags.plan.empty()) return "";
  NewestCheckpoint found = newest_checkpoint_in(flags.checkpoint);
  return found.checkpoint ? found.checkpoint->plan : "";
}

RunCheckpoints::RunCheckpoints(const TrainFlags& flags, const TrainData& data) : flags_(flags) {
  if (flags.checkpoint.empty()) {
    expect<ValueError>(!flags.resume && flags.checkpoint_every == 0, "flags",
                       "--{} needs --checkpoint DIR", flags.resume ? "resume" : "checkpoint-every");
    return;
  }
  checkpoints_.emplace(flags.checkpoint,
                       CheckpointOptions{.keep = flags.keep,
                                         .identity = numbers_identity(flags, data),
                                         .where_known = identity_of_files()});
  knows_files_ = data.format.has_value();
  const std::vector<std::string> files = checkpoints_->files();
  expect<FileError>(flags.resume || files.empty(), "checkpoints",
                    "'{}' is there already: go on from it with --resume, or take another folder",
                    files.empty() ? "" : files.front());
  note_micro_batch(flags.batch);
  signal_.emplace();
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
  text += fmt::format("going on from {}, after {} updates", found.checkpoint->path,
                      found.checkpoint->updates);
  if (knows_files_ && !found.checkpoint->identity.contains(kListOfClasses))
    text += "; it does not say its classes and images, which may be others";
  return text;
}

void RunCheckpoints::note_micro_batch(int64_t images) {
  if (checkpoints_) checkpoints_->set_notes(notes_of(flags_, images));
}

std::string RunCheckpoints::stopped_message(const Trainer& trainer) const {
  const std::string how = flags_.batch_text == kFastestBatch
                              ? fmt::format("--batch {} and --resume", flags_.batch)
                              : std::string("--resume");
  return fmt::format("stopped by {} after {} updates; the same command with {} goes on from {}",
                     signal_->name(), trainer.updates(), how, newest_);
}

}  // namespace brim::examples
