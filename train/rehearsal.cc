#include "brim/train/rehearsal.h"

#include <algorithm>
#include <optional>

#include "brim/autograd/in_place.h"
#include "brim/base/instructions.h"
#include "brim/base/parallel.h"
#include "brim/base/stand_in.h"
#include "brim/nn/creation.h"
#include "brim/nn/eval_scope.h"
#include "brim/ops/cudnn_benchmark.h"
#include "brim/ops/library_version.h"
#include "brim/ops/tf32.h"
#include "brim/train/engine_file.h"
#include "brim/train/evaluate.h"
#include "brim/train/parts.h"
#include "brim/train/precision_scope.h"
#include "brim/train/run_update.h"
#include "brim/train/scale_penalty.h"
#include "brim/train/train_step.h"
#include "brim/train/training_loss.h"
#include "brim/train/upload.h"

namespace brim {
namespace {

class Rehearsal {
 public:
  explicit Rehearsal(const RehearsalOptions& options)
      : options_(options),
        model_(model_on_meta(options)),
        updating_(options.make_updating(*model_)),
        scaler_(copy_of(options.trainer.scaler)),
        step_(*model_, *updating_.optimizer, options_of_step()) {
    expect<ValueError>(!options.loss || options.evaluated == 0, "rehearsal",
                       "expected no evaluation with a loss of its own, got one of {} images",
                       options.evaluated);
    options_.trainer.input.device = Device::meta();
    Tensor& weights = options_.trainer.class_weights;
    if (weights.defined())
      weights = empty(weights.shape(), {.dtype = weights.dtype(), .device = Device::meta()});
  }

  void run() {
    int64_t left = options_.trainer.steps;
    for (int epoch = 0; epoch < 2 && left > 0; ++epoch) {
      for (int64_t i = 0; i < std::min<int64_t>({2, left, options_.updates}); ++i)
        update(options_.update_images());
      // In a short run the last epoch ends before its smaller update.
      if (options_.last_update > 0 && left > options_.updates) update(options_.last_update);
      left -= options_.updates + (options_.last_update > 0 ? 1 : 0);
      if (options_.evaluated > 0 || options_.score) evaluate();
    }
  }

 private:
  // A rehearsal moves a copy. Its passes over the gradients of each part ask for scratch.
  static std::optional<optim::LossScaler> copy_of(const optim::LossScaler* scaler) {
    return scaler == nullptr ? std::nullopt : std::optional(*scaler);
  }
  TrainStepOptions options_of_step() {
    TrainStepOptions options = step_options(options_.trainer, updating_.ema.get());
    options.scaler = scaler_ ? &*scaler_ : nullptr;
    return options;
  }

  data::DeviceBatch upload(int64_t images) const {
    return empty_upload(images, options_.size, options_.trainer.input);
  }

  Tensor loss(int64_t images) {
    if (options_.loss) return options_.loss(*model_, images);
    Tensor loss = training_loss(*model_, upload(images), options_.trainer, Reduction::sum);
    return with_scale_penalty(std::move(loss), *model_, options_.trainer.scale_penalty);
  }

  void update(int64_t images) {
    auto loss_of = [&](const Part& part) { return [this, part] { return loss(part.count); }; };
    auto options_of = [&](const Part& part) {
      return MicroStepOptions{
          .first_sample = static_cast<uint64_t>(part.first),
          .samples = part.count,
          .update_samples = images,
          .factors = takes_factors(options_.trainer, options_.batch, options_.update_images())};
    };
    run_update(step_, /*rate=*/0, different_parts(images), loss_of, options_of,
               [](const Part&, double) {});
  }

  // All parts between the second and the last are like the second.
  std::vector<Part> different_parts(int64_t images) const {
    std::vector<Part> parts = parts_of(images, options_.batch);
    constexpr size_t kDifferent = 4;
    if (parts.size() > kDifferent) parts.erase(parts.begin() + kDifferent - 1, parts.end() - 1);
    return parts;
  }

  void evaluate() {
    autograd::InPlaceScope in_place(options_.trainer.in_place);
    PrecisionScope precision(options_.trainer.precision);
    std::optional<optim::EmaScope> averaged;
    if (updating_.ema != nullptr) averaged.emplace(*updating_.ema);
    nn::EvalScope eval(*model_);
    if (options_.score) {
      for (int i = 0; i < 2; ++i) evaluate(options_.batch);
      return;
    }
    int64_t wanted = options_.evaluation_batch > 0 ? options_.evaluation_batch : options_.batch;
    int64_t batch = std::min(wanted, options_.evaluated);
    for (int64_t i = 0; i < std::min<int64_t>(options_.evaluated / batch, 2); ++i) evaluate(batch);
    if (int64_t rest = options_.evaluated % batch; rest > 0) evaluate(rest);
  }

  void evaluate(int64_t images) {
    for (const Part& part : different_parts(images)) {
      memory::SectionScope section(memory::account(Device::meta()),
                                   {memory::SectionKind::evaluation, part.count});
      if (options_.score)
        options_.score(*model_, part.count);
      else
        evaluate_batch(*model_, upload(part.count), options_.trainer.input);
    }
  }

  RehearsalOptions options_;
  std::shared_ptr<nn::Module> model_;
  Updating updating_;
  std::optional<optim::LossScaler> scaler_;
  TrainStep step_;
};

// Plans of before there was another have none.
std::string identity_of(const char* what, Dtype dtype) {
  return dtype == Dtype::float32 ? "" : fmt::format(", {} {}", what, to_string(dtype));
}

/// What the scratch of a GPU's libraries follows from, beside what they are asked for.
std::string algorithm_identity() {
  std::string text;
  if (stand_in().device.is_cuda())
    if (const std::string kind = engine_kind(stand_in().device); !kind.empty())
      text += fmt::format(", {}{}", kind, stand_in().is_here ? "" : " as described");
  if (allow_tf32()) text += ", tf32";
  if (cudnn_benchmark()) text += ", cudnn benchmark";
  return text;
}

std::string offload_identity(const OffloadOptions& options) {
  return options.enabled ? fmt::format("to {} bytes", options.host_bytes) : "off";
}

}  // namespace

RehearsalOptions RehearsalOptions::one_update(int64_t images) const {
  RehearsalOptions one = *this;
  one.trainer.steps = one.updates = 1;
  one.effective_batch = images;
  one.last_update = one.evaluated = 0;
  one.score = nullptr;
  return one;
}

std::shared_ptr<nn::Module> model_on_meta(const RehearsalOptions& options) {
  nn::CreationScope on_meta({.dtype = options.parameters, .device = Device::meta()});
  std::shared_ptr<nn::Module> model = options.make_model();
  if (is_low_precision(options.parameters)) model->to(options.parameters);
  return model;
}

std::string plan_identity(const RehearsalOptions& options) {
  const TrainerOptions& t = options.trainer;
  return fmt::format(
      "{0}x{0}, batch {1}, {2} an update, {3} updates an epoch, {4} in a last one, {5} updates in "
      "all, {6} evaluated by {7}, {8} as {9}; clip norm {10}, value {11}, fused {12}, in place "
      "{13}, recompute {14}, offload {21}, mixup {15}, cutmix {16}, label smoothing {17}, class "
      "weights {18}, precision {22}{23}{24}{25}{26}; {19}, {20} threads, {29}{27}{28}",
      options.size, options.batch, options.update_images(), options.updates, options.last_update,
      t.steps, options.evaluated, options.evaluation_batch, to_string(t.input.dtype),
      t.input.as_bytes ? "bytes" : "numbers", t.clip.norm, t.clip.value, t.fused_update, t.in_place,
      t.recompute.name, t.mix.mixup, t.mix.cutmix, t.label_smoothing, t.class_weights.defined(),
      to_string(instructions()), num_threads(), offload_identity(t.offload), to_string(t.precision),
      identity_of("gradients", t.gradients), identity_of("parameters", options.parameters),
      t.scale_penalty > 0 ? ", scale penalty" : "", options.score ? ", scored" : "",
      algorithm_identity(),
      takes_factors(t, options.batch, options.update_images()) ? ", gradients in factors" : "",
      library_version());
}

void rehearse(const RehearsalOptions& options, const std::function<void()>& state_is_held) {
  Rehearsal rehearsal(options);
  state_is_held();
  rehearsal.run();
}

}  // namespace brim
