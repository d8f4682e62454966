// The training that bench/step_server and bench/step time, the same problem as
// peers/torch_step.py: random normalised images, SGD with momentum. With `replays` it has a plan,
// in an account of its own, and its updates are recorded (train/step_graph.h); with `budget` it has
// one that keeps to as many bytes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/brim.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/dtype_flag.h"
#include "brim/apps/support/flag_values.h"
#include "brim/memory/arena_planner.h"
#include "brim/train/recompute_plan.h"

namespace brim::bench {

struct StepOptions {
  std::string model = "resnet50", dtype = "f32", weights;
  int64_t batch = 16, size = 224, classes = 1000;
  int threads = 0;  ///< 0: all cores
  /// Else results that cost next to nothing are made again, as `train` does.
  bool keeps_all = false;
  bool replays = false;
  bool fuses_updates = false;
  /// Bytes of all tensors, the images too, for which what takes least is made again; 0: no limit.
  int64_t budget = 0;

  bool is_planned() const { return replays || fuses_updates || budget > 0; }
  Dtype precision() const { return apps::dtype_named(dtype); }
};

inline void add_flags(apps::App& app, StepOptions& options) {
  app.add_option("--model", options.model).shows_default();
  app.add_option("--batch", options.batch).shows_default();
  app.add_option("--size", options.size).shows_default();
  app.add_option("--classes", options.classes).shows_default();
  app.add_option("--threads", options.threads, "of the kernels; 0: all cores");
  app.add_option("--dtype", options.dtype, "f32, or bf16, f16: mixed precision")
      .check(apps::one_of({"f32", "bf16", "f16"}));
  app.add_flag("--keep-all", options.keeps_all, "without free recomputation");
  app.add_option(
      "--weights", options.weights,
      "a file of the model, which may be a pruned one; not with --replay, --fused-update "
      "or --budget");
  app.add_flag("--replay", options.replays, "under a plan, each update recorded and started again");
  app.add_flag("--fused-update", options.fuses_updates,
               "under a plan, parameters updated during backward");
  app.add_option(
         "--budget", [&](const std::string& text) { options.budget = parse_bytes(text); },
         "of all tensors, 200MiB: under a plan that makes again what takes least")
      .check(apps::byte_size(1));
}

/// Throws `ValueError` for flags that do not go together.
inline void check_flags(const StepOptions& options) {
  const std::pair<const char*, bool> planned[] = {{"--replay", options.replays},
                                                  {"--fused-update", options.fuses_updates},
                                                  {"--budget", options.budget > 0}};
  for (const auto& [flag, given] : planned)
    expect<ValueError>(!given || options.weights.empty(), "flags",
                       "{} plans for a model of the registry, and not for that of --weights: leave "
                       "one of them out",
                       flag);
}

inline void set_threads(const StepOptions& options) {
  if (options.threads > 0) set_num_threads(options.threads);
}

class StepTraining {
 public:
  explicit StepTraining(const StepOptions& options)
      : images_(normal({options.batch, options.size, options.size, 3}, 1, RandomKey{1})),
        labels_(random_labels(options.batch, options.classes)) {
    RecomputeOptions recompute = recompute_of(options);
    if (options.is_planned()) {
      account_ = planned_account(options, recompute);
      scope_.emplace(account_);
    }
    model_ = model_of(options);
    sgd_ = sgd_of(*model_);
    step_ = std::make_unique<TrainStep>(*model_, *sgd_,
                                        TrainStepOptions{.fused_update = options.fuses_updates,
                                                         .precision = options.precision(),
                                                         .recompute = std::move(recompute),
                                                         .graph = options.replays});
    if (options.replays) graph_ = std::make_unique<StepGraph>(*step_);
  }

  void step() {
    if (graph_ == nullptr)
      update();
    else
      graph_->run({.rate = kRate, .run = [&] { return update(); }});
  }

  /// A step as it is: one that is replayed launches nothing that a profile would see.
  double update() {
    const int64_t images = images_.size(0);
    return step_->run(kRate, [&] { return cross_entropy((*model_)(images_), labels_); },
                      {.samples = images, .update_samples = images});
  }

  /// Bytes that were live at the most, those of the images too.
  int64_t peak() const {
    const int64_t of_default = memory::account(Device::cpu())->stats().peak_live;
    if (account_ == nullptr) return of_default;
    return account_->stats().peak_live + batch_bytes();
  }
  /// Why the last update was not started from a recording; "" where it was.
  std::string why_no_replay() const { return graph_ == nullptr ? "not asked" : graph_->why_not(); }

 private:
  static constexpr double kRate = 1e-4;  // of random labels nothing is to be learned

  static RecomputeOptions recompute_of(const StepOptions& options) {
    return options.keeps_all ? RecomputeOptions{} : free_recomputation();
  }

  static std::unique_ptr<optim::Sgd> sgd_of(nn::Module& model) {
    return std::make_unique<optim::Sgd>(model.named_parameters(),
                                        optim::SgdOptions{.momentum = 0.9, .weight_decay = 1e-4});
  }

  static std::unique_ptr<nn::Module> model_of(const StepOptions& options,
                                              Device device = Device::cpu()) {
    if (options.weights.empty())
      return nn::make_model(options.model,
                            {.classes = options.classes, .seed = 0, .device = device});
    auto model = nn::load_model(options.weights, {.model = options.model}).module;
    model->train();
    return model;
  }

  static Tensor random_labels(int64_t count, int64_t classes) {
    std::vector<int64_t> labels;
    RandomStream random(RandomKey{2});
    for (int64_t i = 0; i < count; ++i)
      labels.push_back(static_cast<int64_t>(random.below(static_cast<uint64_t>(classes))));
    return from_vector(labels, {count});
  }

  int64_t batch_bytes() const {
    return images_.numel() * size_of(images_.dtype()) + labels_.numel() * size_of(labels_.dtype());
  }

  /// With the images and labels in none of it: they stay. With a budget it says what is made again.
  std::shared_ptr<memory::Account> planned_account(const StepOptions& options,
                                                   RecomputeOptions& recompute) const {
    const Tensor images = empty(images_.shape(), {.device = Device::meta()});
    const Tensor labels = empty(labels_.shape(), {.dtype = Dtype::int64, .device = Device::meta()});
    const TrainerOptions trainer{.steps = 3,
                                 .fused_update = options.fuses_updates,
                                 .precision = options.precision(),
                                 .recompute = recompute,
                                 .graph = options.replays};
    const RehearsalOptions rehearsal{
        .make_model = [&] { return model_of(options, Device::meta()); },
        .make_updating =
            [](nn::Module& model) {
              return Updating{sgd_of(model), nullptr};
            },
        .trainer = trainer,
        .batch = options.batch,
        .updates = trainer.steps,
        .loss = [&](nn::Module& model, int64_t) { return cross_entropy(model(images), labels); }};
    if (options.budget > 0) {
      RecomputeChoice choice =
          choose_recomputation({.rehearsal = rehearsal}, options.budget - batch_bytes());
      expect<ValueError>(choice.fits, "budget", "{} are too few: it takes {}",
                         format_bytes(options.budget),
                         format_bytes(choice.memory.peak_reserved + batch_bytes()));
      recompute = std::move(choice.recompute);
      return account_of(choice.memory, choice.arena);
    }
    const RehearsedPlan plan =
        plan_on_meta([&](const std::function<void()>& held) { rehearse(rehearsal, held); });
    return account_of(plan.predicted, plan.plan);
  }

  static std::shared_ptr<memory::Account> account_of(
      const StepMemory& memory, const std::shared_ptr<const memory::Plan>& plan) {
    return std::make_shared<memory::Account>(
        Device::cpu(), std::make_unique<memory::HostSource>(memory.peak_reserved),
        memory::arena_planner(plan));
  }

  Tensor images_, labels_;
  std::shared_ptr<memory::Account> account_;  // null: the default one
  std::optional<memory::AccountScope> scope_;
  std::unique_ptr<nn::Module> model_;
  std::unique_ptr<optim::Sgd> sgd_;
  std::unique_ptr<TrainStep> step_;
  std::unique_ptr<StepGraph> graph_;
};

}  // namespace brim::bench
