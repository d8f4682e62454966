#include "brim/apps/support/train_run.h"

#include <fmt/format.h>

#include "brim/base/parallel.h"
#include "brim/base/stop.h"
#include "brim/brim.h"
#include "brim/apps/support/algorithm_flags.h"
#include "brim/apps/support/events.h"
#include "brim/apps/support/op_times_flag.h"
#include "brim/apps/support/planned_device.h"
#include "brim/apps/support/program.h"
#include "brim/apps/support/run_profile.h"
#include "brim/apps/support/run_watch.h"
#include "brim/apps/support/small_images.h"
#include "brim/apps/support/train_checkpoints.h"
#include "brim/apps/support/train_data.h"
#include "brim/apps/support/train_plan.h"
#include "brim/apps/support/train_precision.h"
#include "brim/apps/support/train_pruning.h"
#include "brim/apps/support/train_report.h"
#include "brim/apps/support/train_trace.h"
#include "brim/apps/support/train_weights.h"
#include "brim/train/engine_file.h"

namespace brim::apps {
namespace {

/// Precision, batch and recomputation, where the flags leave them open.
KeptMemory choose_memory(TrainFlags& flags, const TrainData& data, Events& events) {
  choose_precision(flags, data, events);
  const bool open = flags.batch == 0;
  if (!open) choose_recompute(flags, data, events);
  KeptMemory kept = take_up_plan(flags, data, kept_plan(flags));
  choose_batch(flags, data, events);
  if (open) choose_recompute(flags, data, events);
  return kept;
}

bool is_bounded_by_host(const TrainFlags& flags) {
  return flags.host && (flags.budget == 0 || flags.host->for_tensors(0, 0) < flags.budget);
}

/// Says what led to a NaN, and how to go on from what the training kept before it left.
[[noreturn]] void finish_after_error(const std::exception& error, const RunWatch& watch,
                                     TrainReport& report, const RunCheckpoints& checkpoints) {
  const std::string how = checkpoints.how_to_go_on();
  try {
    report.say(watch.finish_after_error());
  } catch (const FileError&) {  // of output that is lost: the first error is the one to see
  }
  if (how.empty()) throw;
  throw Stopped{fmt::format("{}; {}", error.what(), how)};
}

/// What was asked for, of the GPU as it is now.
TrainFlags with_gpu(TrainFlags asked, const TrainFlags& now) {
  asked.gpu = now.gpu;
  return asked;
}

/// What follows a training while it runs.
struct Followers {
  const TrainFlags& flags;
  const TrainData& data;
  nn::Module& model;
  TrainReport& report;
  RunTrace& trace;
  RunProfile& profile;
  RunCheckpoints& checkpoints;
};

void connect(Trainer& trainer, const Followers& to) {
  trainer.on_step = [to](const StepReport& step) {
    to.report.step(step);
    to.trace.step();
    to.profile.step();
  };
  trainer.on_evaluation = [to](int64_t done, int64_t all) { to.report.evaluation(done, all); };
  trainer.on_epoch = [to](const EpochReport& epoch) { to.report.epoch(epoch); };
  trainer.on_prune = [to](const PruneReport& prune) { to.report.prune(prune); };
  trainer.on_replan = [to](const ReplanReport& replan) {
    to.report.replan(replan);
    to.checkpoints.note_micro_batch(replan.micro_batch);
  };
  trainer.on_checkpoint = [to](const std::string& path) {
    to.report.say(to.checkpoints.note_written(path));
  };
  trainer.should_checkpoint = [to] {
    to.report.say(to.checkpoints.unheard_wish());
    return to.checkpoints.is_wished_for();
  };
  trainer.on_best = [to](const EpochReport&) { save_best_weights(to.flags, to.data, to.model); };
}

}  // namespace

void run_training(TrainFlags flags) {
  const StandInScope plans_for(take_device(flags, "train"));
  check_flags(flags);
  Events events(flags.json, {.append = flags.resume});
  if (flags.threads > 0) set_num_threads(flags.threads);
  // Before the first byte of an image or a tensor: a small budget should cost nothing.
  set_algorithms(flags);
  if (flags.device.is_cpu() && flags.budget > 0) require_budget_within(flags.budget);
  TrainData data = open_data(flags);
  take_initial_sizes(flags, data);
  check_weight_flags(flags, data);
  check_pruning_flags(flags, data);
  std::shared_ptr<io::FolderLock> lock = lock_checkpoints(flags);
  take_resumed_sizes(flags, data);
  set_op_times(flags);
  if (flags.device.is_cpu()) flags.host = host_share(flags);
  if (is_bounded_by_host(flags) && !flags.quiet && !events.owns_stdout())
    fmt::print("{}\n", to_string(*flags.host));
  const std::optional<MachinePeak> peak = peak_for_profile(flags);
  const TrainFlags asked = flags;
  std::optional<EngineTiming> timing(flags);
  KeptMemory kept = choose_memory(flags, data, events);
  timing->finish(flags, data);
  const std::string timed = timing->said();
  timing.reset();
  RunCheckpoints checkpoints(flags, data, std::move(lock));
  MemoryPlan plan = plan_memory(flags, data, events, std::move(kept.plan));
  while (has_lost_memory(flags, plan.predicted.peak_reserved)) {
    flags = with_gpu(asked, flags);
    if (!flags.quiet && !events.owns_stdout())
      fmt::print("others took memory of {} meanwhile: planned again\n", to_string(flags.device));
    kept = choose_memory(flags, data, events);
    plan = plan_memory(flags, data, events, std::move(kept.plan));
  }
  TrainerOptions options = trainer_options(flags, data);
  options.checkpoints = checkpoints.folder();
  options.pruning = pruning_options(flags, data);
  keep_engines(flags.device);
  checkpoints.note_micro_batch(flags.batch);  // with the engines that the plan is for
  if (flags.plans_recompute() && !flags.quiet && !events.owns_stdout()) say_op_times(flags);
  open_loaders(flags, data);
  auto account =
      std::make_shared<memory::Account>(flags.device, source_for(flags), plan.planner(flags));
  memory::AccountScope scope(account);
  {
    RunTrace trace(flags, plan, account);
    auto model = nn::make_model(flags.model, model_options(flags, data, flags.device));
    const std::string loaded = load_initial_weights(flags, *model);
    Updating updating = make_updating(flags.optimizer, *model);
    options.ema = updating.ema.get();
    const std::unique_ptr<optim::LossScaler> scaler = make_scaler(flags);
    options.scaler = scaler.get();
    RunWatch watch(flags, events);
    options.watch = watch.watch();
    RunProfile profile(flags, peak, events);
    options.profile = profile.profile();
    TrainReport report(flags, data, *model, events);
    Trainer trainer(*model, *updating.optimizer, {*data.training, data.validation.get()}, options);
    connect(trainer, {flags, data, *model, report, trace, profile, checkpoints});
    report.say(small_images_warning(flags, data));
    report.say(loaded);
    report.say(checkpoints.lock_warning());
    report.say(checkpoints.resume(trainer));
    report.say(other_classes(flags, data));
    report.say(kept.said);
    report.say(timed);
    keep_plan(flags, data, plan);
    events.open();  // all that could refuse the run has been asked
    try {
      trainer.run();
    } catch (const std::exception& error) {
      finish_after_error(error, watch, report, checkpoints);
    }
    const StopScope whole(nullptr);  // what was trained is written
    trace.finish();
    report.say(profile.finish());
    report.say(watch.finish());
    if (trainer.stopped()) throw Stopped{checkpoints.stopped_message(trainer)};
    save_trained_weights(flags, data, *model, updating.ema.get());
    report.done(plan.predicted, trainer);
  }
  check(account->stats().live == 0, "every tensor byte was returned");
}

}  // namespace brim::apps
