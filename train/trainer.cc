#include "brim/train/trainer.h"

#include <chrono>
#include <cmath>
#include <exception>
#include <optional>

#include "brim/autograd/in_place.h"
#include "brim/base/exception_text.h"
#include "brim/base/stand_in.h"
#include "brim/core/non_finite.h"
#include "brim/memory/out_of_memory.h"
#include "brim/train/cards.h"
#include "brim/train/numerics_watch.h"
#include "brim/train/parts.h"
#include "brim/train/precision_scope.h"
#include "brim/train/profile.h"
#include "brim/train/run_update.h"
#include "brim/train/scale_penalty.h"
#include "brim/train/upload.h"

namespace brim {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Shape image_shape(const BatchSource& source) {
  const int64_t side = source.shape().size;
  return {1, side, side, 3};
}

std::vector<double> weights_of(const Tensor& class_weights) {
  if (!class_weights.defined()) return {};
  if (class_weights.dtype() == Dtype::float64) return class_weights.to_vector<double>();
  auto weights = class_weights.to_vector<float>();
  return {weights.begin(), weights.end()};
}

}  // namespace

Trainer::Trainer(nn::Module& model, optim::Optimizer& optimizer, const TrainingData& data,
                 TrainerOptions options)
    : model_(model),
      optimizer_(optimizer),
      data_(data),
      options_(std::move(options)),
      class_weights_(weights_of(options_.class_weights)),
      micro_batch_(options_.micro_batch > 0 ? options_.micro_batch : data.training.shape().images),
      step_(model, optimizer, step_options(options_)),
      replanning_(model, optimizer, data, options_) {
  expect<ValueError>(options_.steps >= 1, "trainer", "expected at least 1 step, got {}",
                     options_.steps);
  expect<ValueError>(options_.micro_batch >= 0, "trainer",
                     "expected a micro-batch from 0 images, got {}", options_.micro_batch);
  expect<ValueError>(!options_.fused_update || micro_batch_ >= data.training.shape().images,
                     "trainer",
                     "a fused update takes all its images at once: {} of {} is a part of them",
                     micro_batch_, data.training.shape().images);
  expect<ValueError>(options_.early_stop == 0 || data.validation != nullptr, "trainer",
                     "early_stop needs images to validate");
  check_mix(options_.mix);
  expect<ValueError>(options_.scale_penalty >= 0 && std::isfinite(options_.scale_penalty),
                     "trainer", "expected a scale penalty from 0, got {}", options_.scale_penalty);
  expect<ValueError>(
      !wants_gradients(options_) || !(options_.fused_update || options_.scaler), "trainer",
      "pruning by taylor looks at gradients between updates: not with a fused update, "
      "which keeps none, nor a loss scaler, with which they may overflow");
  if (options_.pruning) {
    replanning_.require_possible();
    pruning_.emplace(model_, image_shape(data.training), *options_.pruning);
  }
  expect<ValueError>(options_.input.as_bytes || !options_.mix.any(), "trainer",
                     "mixup and CutMix mix bytes, and the input is numbers");
  make_graph();
}

// Of what a recorded update could not do again.
void Trainer::make_graph() {
  if (!options_.graph) return;
  if (options_.input.device.is_meta())
    why_no_graph_ = "nothing runs on the meta device";
  else if (options_.mix.any())
    why_no_graph_ = "mixup and CutMix are drawn by the host";
  else if (options_.watch != nullptr)
    why_no_graph_ = "the numbers are watched";
  else if (options_.profile != nullptr)
    why_no_graph_ = "the launches are profiled, and a graph has none";
  else if (options_.scale_penalty > 0)
    why_no_graph_ = "the penalty on scales is weighed by the host";
  else if (options_.offload.enabled)
    why_no_graph_ = "copies to the host and back are not recorded";
  else
    graph_ = std::make_unique<StepGraph>(step_);
}

// Under as many bytes as the device has at the time. What ran out has undone itself.
template <class Work>
auto Trainer::surviving(const Work& work) {
  const StopScope may_stop(stop_);
  for (;;) {
    if (replanning_.is_beyond()) replan("the device has fewer bytes than are reserved");
    if (replanning_.is_beyond()) ++counts_.violations;
    try {
      return work();
    } catch (const memory::OutOfMemory& error) {
      if (error.shortage().injected) throw;
      if (!replanning_.has_shrunk(error.shortage().total))
        throw with_remedies(
            error, [&](int64_t batch) { return replanning_.predict(batch); }, micro_batch_);
      ++counts_.out_of_memory;
    }
    replan("the device lost bytes, and ran out");
  }
}

void Trainer::run() {
  const StandInScope plans_for(stand_in_for(options_.input.device));
  stop_ = stop_asked();
  const StopScope whole(nullptr);  // but for what can be undone
  stopped_ = false;
  try {
    begin_plan();
    run_epochs();
  } catch (const Stop&) {
    stopped_ = true;
    checkpoint_before_leaving();
  } catch (...) {
    checkpoint_after_error();
    throw;
  }
}

void Trainer::begin_plan() {
  const std::string kept = std::exchange(kept_plan_, "");
  if (options_.planner.empty()) return;
  const StopScope may_stop(stop_);
  std::string why = "the training begins";
  if (options_.planner == "arena" && !kept.empty()) {
    try {
      return follow(replanning_.take_up(kept));
    } catch (const FileError& error) {
      why = error.what();
    }
  }
  replan(why, options_.planner);
}

void Trainer::run_epochs() {
  // An epoch under way is evaluated, also where its last update was the last of all.
  while (!is_done() || progress_.batch > 0) {
    run_epoch();
    checkpoint();
    if (stopped_ || is_done()) return;
    if (replanning_.may_grow(micro_batch_)) replan("the device has bytes again");
  }
}

bool Trainer::is_done() const {
  const bool converged =
      options_.early_stop > 0 && progress_.epochs_since_best >= options_.early_stop;
  return step_.attempts() >= options_.steps || converged;
}

NewestCheckpoint Trainer::resume() {
  expect<ValueError>(options_.checkpoints != nullptr, "trainer",
                     "there is no folder of checkpoints to go on from");
  NewestCheckpoint found = options_.checkpoints->load_newest(state());
  if (!found.checkpoint) return found;
  progress_ = found.checkpoint->progress;
  kept_plan_ = found.checkpoint->plan;
  if (pruning_ && step_.attempts() > options_.pruning->schedule.begin) let_batch_grow();
  return found;
}

// Every way out of a run ends here: as after the last committed step.
void Trainer::checkpoint_before_leaving() {
  if (is_unsaved_ && is_intact()) checkpoint();
}

// Within a handler of the error. Both are told where no checkpoint can be written.
void Trainer::checkpoint_after_error() {
  const std::string error = exception_text(std::current_exception());
  try {
    checkpoint_before_leaving();
  } catch (const FileError& disk) {
    std::throw_with_nested(FileError(
        "trainer", fmt::format("{}; and no checkpoint could be written: {}", error, disk.what())));
  }
}

// What one may go on from.
bool Trainer::is_intact() const {
  if (options_.checkpoints == nullptr || step_.is_torn()) return false;
  bool is_finite = std::isfinite(progress_.loss_sum);
  model_.for_each_slot([&](const std::string&, const nn::Module::Slot& slot) {
    is_finite = is_finite && !has_non_finite(*slot.tensor);
  });
  return is_finite;
}

void Trainer::checkpoint() {
  if (options_.checkpoints == nullptr) return;
  is_unsaved_ = false;  // also where it fails: it would again
  std::string path = options_.checkpoints->save(state(), progress_, replanning_.kept(micro_batch_));
  if (on_checkpoint) on_checkpoint(path);
}

void Trainer::checkpoint_if_asked() {
  if (should_checkpoint && should_checkpoint()) checkpoint();
}

void Trainer::run_epoch() {
  run_steps();
  if (stopped_) return;
  end_epoch();
  stopped_ = !is_done() && is_told_to_stop();
}

void Trainer::run_steps() {
  data_.training.start_epoch(progress_.epoch, progress_.batch);
  while (step_.attempts() < options_.steps) {
    auto start = std::chrono::steady_clock::now();
    auto batch = data_.training.next();
    if (!batch) return;
    prune_if_due(*batch);
    StepReport step = run_step(*batch);
    step.seconds = seconds_since(start);
    step.epoch = progress_.epoch + 1;
    ++progress_.batch;
    if (!step.skipped) {
      progress_.loss_sum += step.loss * static_cast<double>(step.images);
      progress_.images += step.images;
    }
    progress_.seconds += step.seconds;
    is_unsaved_ = true;
    skips_.note(step.skipped);
    if (on_step) on_step(step);
    stopped_ = is_told_to_stop();
    if (stopped_) return;
    checkpoint_if_asked();
    if (options_.checkpoint_every > 0 && step.step % options_.checkpoint_every == 0) checkpoint();
  }
}

void Trainer::end_epoch() {
  check(progress_.batch > 0, "an epoch has at least one batch");
  EpochReport report{.epoch = progress_.epoch + 1,
                     .train_loss = progress_.loss_sum / static_cast<double>(progress_.images),
                     .seconds = progress_.seconds};
  TrainingProgress next{.epoch = report.epoch,
                        .best = progress_.best,
                        .epochs_since_best = progress_.epochs_since_best,
                        .accuracy = progress_.accuracy,
                        .top5 = progress_.top5};
  if (data_.validation != nullptr) validate(report, next);
  progress_ = next;
  is_unsaved_ = true;
  if (on_epoch) on_epoch(report);
}

// `progress_` stays: whoever fails before the end, saving the best weights too, evaluates again.
void Trainer::validate(EpochReport& report, TrainingProgress& next) {
  autograd::InPlaceScope in_place(options_.in_place);
  std::optional<optim::EmaScope> averaged;
  if (options_.ema != nullptr) averaged.emplace(*options_.ema);
  report.validation = evaluate_validation();
  next.accuracy = report.validation->accuracy;
  next.top5 = report.validation->top5;
  report.best = !next.best || *next.accuracy > *next.best;
  ++next.epochs_since_best;
  if (!report.best) return;
  next.best = next.accuracy;
  next.epochs_since_best = 0;
  if (on_best) on_best(report);
}

Evaluation Trainer::evaluate_validation() {
  auto on_batch = [this](int64_t done, int64_t all) {
    if (on_evaluation) on_evaluation(done, all);
    if (options_.ema == nullptr) checkpoint_if_asked();  // else once they have left the model
    if (done < all && is_told_to_stop()) throw Stop();
  };
  try {
    return surviving([&] {
      PrecisionScope precision(options_.precision);
      return evaluate(model_, *data_.validation, options_.input, on_batch, micro_batch_);
    });
  } catch (const ValueError& error) {
    const std::string why = skips_.divergence();
    if (why.empty()) throw;
    raise<ValueError>("trainer", "{}; {}", why, error.what());
  }
}

// With gradients of the batch that comes next, of an update that is then undone.
std::optional<shrink::PruningPlan> Trainer::pruning_plan(const HostBatch& batch) {
  if (!pruning_->wants_gradients()) return pruning_->plan(step_.attempts());
  const double weight = loss_weight(batch.labels, class_weights_, options_);
  return surviving([&] {
    step_.begin();
    for (const Part& part : parts_of(batch.count(), micro_batch_))
      step_.micro_step(loss_of(batch, part, weight), part_options(batch, part, weight));
    std::optional<shrink::PruningPlan> plan = pruning_->plan(step_.attempts());
    step_.undo();
    return plan;
  });
}

void Trainer::let_batch_grow() {
  if (options_.pruning->batch_may_grow) replanning_.want(data_.training.shape().images);
}

void Trainer::prune_if_due(const HostBatch& batch) {
  if (!pruning_ || !pruning_->is_due(step_.attempts())) return;
  let_batch_grow();
  const std::optional<shrink::PruningPlan> plan = pruning_plan(batch);
  if (!plan || plan->cut.empty()) return;
  const std::string planner = replanning_.suspend();
  shrink::remove_channels(model_, plan->cut, state_of(optimizer_, options_.ema));
  step_.renew_shadows();
  is_unsaved_ = true;
  if (on_prune) on_prune(pruning_->report(step_.attempts(), *plan));
  replan("the model has fewer channels", planner);
}

void Trainer::replan(const std::string& why, const std::string& planner) {
  ReplanReport report = replanning_.plan(why, planner);
  ++counts_.replans;
  follow(std::move(report));
}

void Trainer::follow(ReplanReport report) {
  report.step = step_.attempts();
  micro_batch_ = report.micro_batch;
  if (on_replan) on_replan(report);
}

// Summed over the part; the step divides it by `weight`. Each part has its share of the penalty.
TrainStep::LossFunction Trainer::loss_of(const HostBatch& batch, const Part& part, double weight) {
  const double share = static_cast<double>(part.count) / static_cast<double>(batch.count());
  return [this, &batch, part, penalty = options_.scale_penalty * weight * share] {
    Tensor loss =
        training_loss(model_, upload(batch.part(part), options_.input), options_, Reduction::sum);
    return with_scale_penalty(std::move(loss), model_, penalty);
  };
}

MicroStepOptions Trainer::part_options(const HostBatch& batch, const Part& part,
                                       double weight) const {
  return {.weight = 1 / weight,
          .first_sample = static_cast<uint64_t>(part.first),
          .samples = part.count,
          .update_samples = batch.count(),
          .factors = takes_factors(options_, micro_batch_, data_.training.shape().images)};
}

// The host keeps the batch until commit, so the step can be run again from it.
double Trainer::update(const HostBatch& batch, double rate) {
  const double weight = loss_weight(batch.labels, class_weights_, options_);
  expect<ValueError>(weight > 0, "trainer",
                     "the labels of update {} count nothing: all are ignored, or their classes "
                     "weigh 0",
                     step_.attempts());
  if (graph_ == nullptr) return run_parts(batch, rate, weight) / weight;
  return graph_->run({.rate = rate,
                      .weight = 1 / weight,
                      .inputs = {std::as_bytes(batch.pixels), std::as_bytes(batch.labels)},
                      .run = [&] { return run_parts(batch, rate, weight); }}) /
         weight;
}

// The sum of their losses.
double Trainer::run_parts(const HostBatch& batch, double rate, double weight) {
  double sum = 0;
  run_update(
      step_, rate, parts_of(batch.count(), micro_batch_),
      [&](const Part& part) { return loss_of(batch, part, weight); },
      [&](const Part& part) { return part_options(batch, part, weight); },
      [&](const Part&, double loss) { sum += loss; });
  return sum;
}

double Trainer::watched_update(const HostBatch& batch, const StepReport& report) {
  const bool is_watched = options_.watch != nullptr && options_.watch->is_due(step_.attempts());
  NumericsWatch::Scope watching(options_.watch, step_.attempts(), report.scale);
  Profile::Scope profiling(is_watched ? nullptr : options_.profile, step_.attempts());
  const double loss = update(batch, report.rate);
  if (!std::holds_alternative<Applied>(step_.outcome())) return loss;
  profiling.keep();
  watching.keep();
  return loss;
}

StepReport Trainer::run_step(const HostBatch& batch) {
  StepReport report{.rate = options_.schedule.rate(step_.updates()), .images = batch.count()};
  if (options_.scaler != nullptr) report.scale = options_.scaler->scale();
  report.loss = surviving([&] { return watched_update(batch, report); });
  if (const auto* skipped = std::get_if<Skipped>(&step_.outcome())) report.skipped = *skipped;
  if (report.skipped && options_.watch != nullptr) options_.watch->note_skipped(*report.skipped);
  report.step = step_.attempts();
  if (!report.skipped) report.gradient_norm = optimizer_.gradient_norm();
  return report;
}

}  // namespace brim
