// Makes a trained image classifier smaller: removes channels for real, and trains what is left on.
// `prune --help` shows the flags.
#include <iostream>

#include "brim/base/parallel.h"
#include "brim/brim.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/block_choice.h"
#include "brim/apps/support/data_notes.h"
#include "brim/apps/support/model_measure.h"
#include "brim/apps/support/op_times_flag.h"
#include "brim/apps/support/output.h"
#include "brim/apps/support/program.h"
#include "brim/apps/support/prune_flags.h"
#include "brim/apps/support/sensitivity.h"
#include "brim/apps/support/train_run.h"
#include "brim/apps/support/train_weights.h"
#include "brim/io/atomic_file.h"
#include "brim/train/upload.h"

namespace {

using namespace brim;
using namespace brim::apps;

constexpr const char* kExamples = R"(Examples:
  prune --weights r20.safetensors --data cifar10 --to flops=0.5 --save half.safetensors \
        --finetune-epochs 5                  half the FLOPs, then five epochs of training
  prune --weights r20.safetensors --data cifar10 --to bytes=0.6     what that would cost, unsaved
  prune --weights r50.safetensors --data photos --remove-blocks 3 --save fewer.safetensors
  infer --weights half.safetensors --image a.png                    as any file of weights
)";

/// One run of the program.
class Prune {
 public:
  explicit Prune(PruneFlags flags) : flags_(std::move(flags)), events_(flags_.train.json) {
    TrainFlags& train = flags_.train;
    if (train.threads > 0) set_num_threads(train.threads);
    data_ = open_data(train);
    if (flags_.goal.kind == GoalKind::time) set_op_times(train);
    take_initial_sizes(train, data_);
    check_weight_flags(train, data_);
    open_loaders(train, data_);
    usual_ = usual_model(train, data_);
    model_ = trained_model();
    say_data_notes();
    if (const std::string classes = other_classes(train, data_); !classes.empty())
      say(classes + '\n');
  }

  void run() {
    say_prefix();
    if (!flags_.sensitivity.empty()) draw_sensitivity();
    const ModelMeasure before = measure_model(flags_.train, data_, *model_);
    say_data_notes();
    const double cost_before = cost_of_model();
    if (flags_.remove_blocks > 0) remove_blocks();
    if (!flags_.to.empty()) remove_channels(cost_before);
    flags_.train.sizes = nn::sizes_beside(*model_, *usual_);
    save_trained_weights(flags_.train, data_, *model_, nullptr);
    if (flags_.finetune_epochs > 0) finetune();
    const ModelMeasure after = measure_model(flags_.train, data_, *model_);
    say(comparison(before, after));
    events_.write({{"before", to_json(before)}, {"after", to_json(after)}});
    events_.open();
  }

 private:
  void say(const std::string& text) const {
    if (!flags_.train.quiet && !events_.owns_stdout()) std::cout << shown(text) << std::flush;
  }

  void say_prefix() const {
    const std::string& path = flags_.train.init;
    const std::string prefix = nn::name_prefix(*model_, io::SafetensorsFile(path));
    if (!prefix.empty()) say(said_of_prefix(path, prefix) + '\n');
  }

  void say_data_notes() {
    for (const std::string& line : notes_.next()) say(line + '\n');
  }

  shrink::Cost cost() const { return cost_of(flags_.goal, flags_.train, data_, flags_.exclude); }
  Shape input() const { return {1, flags_.train.size, flags_.train.size, 3}; }

  double cost_of_model() const {
    nn::MetaScope on_meta(*model_);
    return cost()(*model_);
  }

  void remove_blocks() {
    for (const std::string& name : choose_blocks(
             flags_, data_, [this] { return trained_model(); },
             [this](const std::string& line) { say(line + '\n'); }))
      model_->module(name).bypass();
  }

  /// `before` is the cost of the model with all blocks.
  void remove_channels(double before) {
    shrink::PruneOptions options = flags_.options();
    if (options.criterion == shrink::Criterion::taylor)
      options.scores = [this](nn::Module& model, const shrink::ChannelGroups& groups) {
        return scores_of_batches(model, groups);
      };
    const shrink::Pruner pruner(*model_, input(), options);
    const double left = std::min(1.0, flags_.goal.amount * before / cost_of_model());
    const shrink::PruningPlan plan = flags_.goal.kind == GoalKind::ratio
                                         ? pruner.ratio(flags_.goal.amount, cost())
                                         : pruner.to(left, cost());
    shrink::remove_channels(*model_, plan.cut);
    say(fmt::format("{:.1f}% of the channels that can go are gone: {} is {:.3f} of what it was\n",
                    100 * plan.removed, flags_.goal.name, plan.after / before));
  }

  std::unique_ptr<nn::Module> trained_model() const {
    auto model =
        nn::make_model(flags_.train.model, model_options(flags_.train, data_, flags_.train.device));
    load_initial_weights(flags_.train, *model);
    return model;
  }

  void draw_sensitivity() {
    const Sensitivity found = measure_sensitivity(
        flags_, data_, [this] { return trained_model(); },
        [this](const std::string& line) { say(line + '\n'); });
    io::write_file(flags_.sensitivity,
                   sensitivity_page(found, fmt::format("Sensitivity of {}", flags_.train.model)),
                   "sensitivity");
    say(to_table(found));
  }

  // By each batch's own gradients, added up: over all batches they nearly cancel in a trained
  // model. In evaluation mode: running statistics stay as they are.
  shrink::UnitScores scores_of_batches(nn::Module& model, const shrink::ChannelGroups& groups) {
    nn::EvalScope eval(model);
    const TrainerOptions options = trainer_options(flags_.train, data_);
    shrink::UnitScores sums;
    data_.training->start_epoch(0, 0);
    for (int64_t i = 0; i < flags_.gradient_batches; ++i) {
      const std::optional<HostBatch> batch = data_.training->next();
      if (!batch) break;
      backward(training_loss(model, upload(*batch, data_.input), options));
      shrink::add_scores(sums, shrink::unit_scores(model, groups, shrink::Criterion::taylor));
      model.zero_grad();
    }
    return sums;
  }

  void finetune() {
    TrainFlags train = flags_.train;
    train.init = train.save;
    train.json.clear();
    try {
      run_training(train);
    } catch (const Stopped& stopped) {
      throw Stopped{
          fmt::format("{}; '{}' is as it was before the fine-tuning", stopped.message, train.save)};
    }
    nn::load_weights(*model_, train.save);
  }

  PruneFlags flags_;
  Events events_;
  TrainData data_;
  DataNotes notes_{data_};
  std::unique_ptr<nn::Module> usual_;  // as it is without pruning, on the meta device
  std::unique_ptr<nn::Module> model_;
};

}  // namespace

int main(int argc, char** argv) {
  App app("Makes a trained image classifier smaller, and trains what is left.", "prune");
  PruneFlags flags;
  add_flags(app, flags);
  app.footer(kExamples);
  return run_program(app, argc, argv, [&] {
    check_flags(flags);
    Prune(flags).run();
  });
}
