#include "brim/train/train_step.h"

#include <cmath>
#include <limits>
#include <utility>

#include "brim/autograd/backward.h"
#include "brim/autograd/effects.h"
#include "brim/base/stand_in.h"
#include "brim/train/narrow_gradients.h"
#include "brim/train/precision_scope.h"
#include "brim/train/step_graph.h"
#include "brim/train/step_saving.h"

namespace brim {
namespace {

// On the meta device the plan is about to be made.
void require_planned(const memory::Account& account) {
  expect<ValueError>(account.device().is_meta() || account.reserves_steps(), "train step",
                     "a fused update cannot be undone, so its bytes must be reserved before it "
                     "begins: train under memory::arena_planner with a plan of it, not under the "
                     "{} planner, or leave fused_update off",
                     account.planner_name());
}

autograd::EffectShare share_of(const MicroStepOptions& part) {
  if (part.update_samples == 0) return {};
  auto all = static_cast<uint64_t>(part.update_samples),
       samples = static_cast<uint64_t>(part.samples);
  expect<ValueError>(
      part.samples > 0 && part.first_sample <= all && samples <= all - part.first_sample,
      "train step", "expected a part of the update's {} samples, got {} from {}",
      part.update_samples, part.samples, part.first_sample);
  auto share = [&](uint64_t count) {
    return static_cast<double>(count) / static_cast<double>(all);
  };
  return {.part = share(samples), .before = share(part.first_sample)};
}

Tensor shadow_of(const std::string& name, const Tensor& buffer) {
  memory::CategoryScope category(memory::Category::other);
  memory::SiteScope site({.op = "shadow", .module = &autograd::kept_path(name)});
  return clone(buffer);
}

}  // namespace

TrainStep::TrainStep(nn::Module& model, optim::Optimizer& optimizer, TrainStepOptions options)
    : optimizer_(optimizer), options_(std::move(options)) {
  expect<ValueError>(!options_.fused_update || options_.clip.norm == optim::ClipOptions::kNone,
                     "train step",
                     "a fused update cannot clip to a norm of {}: it is that of all gradients, and "
                     "parameters are updated before the last one is known. Clip by value, or leave "
                     "fused_update off",
                     options_.clip.norm);
  expect<ValueError>(options_.precision == Dtype::float32 || is_low_precision(options_.precision),
                     "train step", "expected a precision of float32, float16 or bfloat16, got {}",
                     options_.precision);
  expect<ValueError>(options_.gradients == Dtype::float32 || options_.gradients == Dtype::bfloat16,
                     "train step", "expected gradients of float32 or bfloat16, got {}",
                     options_.gradients);
  expect<ValueError>(!options_.fused_update || options_.gradients == Dtype::float32, "train step",
                     "a fused update keeps no gradients that could be {}", options_.gradients);
  expect<ValueError>(!options_.fused_update || options_.scaler == nullptr, "train step",
                     "a fused update takes no loss scaler: an overflow would be found after the "
                     "first parameter was updated. Train in bfloat16, or leave fused_update off");
  for (const nn::NamedTensor& parameter : model.named_parameters())
    parameters_.push_back(parameter.tensor);
  if (options_.offload.enabled)
    offload_ = std::make_unique<autograd::Offload>(
        device(), autograd::offload_host(device(), options_.offload.host_bytes));
  if (options_.graph) {
    memory::CategoryScope category(memory::Category::other);
    memory::SiteScope site({.op = "step numbers"});
    live_ = zeros({kLiveNumbers}, {.dtype = Dtype::float64, .device = device()});
  }
  model.name_in_account();
  model.for_each_slot([&](const std::string& name, const nn::Module::Slot& slot) {
    if (slot.is_parameter) return;
    if (!slot.owner->training()) {
      unshadowed_.emplace_back(name, slot.owner);
      return;
    }
    shadows_.emplace_back(*slot.tensor, shadow_of(name, *slot.tensor));
    shadowed_.push_back(name);
  });
}

void TrainStep::renew_shadows() {
  std::vector<Tensor> renewed;
  for (size_t i = 0; i < shadows_.size(); ++i) {
    const auto& [buffer, shadow] = shadows_[i];
    const bool fits = shadow.shape() == buffer.shape();
    renewed.push_back(fits ? shadow : shadow_of(shadowed_[i], buffer));
  }
  for (size_t i = 0; i < shadows_.size(); ++i) shadows_[i].second = std::move(renewed[i]);
}

Device TrainStep::device() const {
  return parameters_.empty() ? Device::cpu() : parameters_.front().device();
}

double TrainStep::run(double rate, const LossFunction& loss, const MicroStepOptions& options) {
  begin();
  takes_factors_ =
      options.factors && options_.gradients == Dtype::float32 && !device_meant(device()).is_cuda();
  if (options_.fused_update) return run_fused(rate, loss, options);
  const double value = or_undo([&] { return run_whole(rate, loss, options); });
  commit();
  return value;
}

void TrainStep::begin() {
  undo();  // a step that was left half done
  require_ready();
  or_undo([&] {
    auto account = memory::account(device());
    if (options_.fused_update) require_planned(*account);
    begin_planner_step(std::move(account));
    first_ = true;
    for (const auto& [buffer, shadow] : shadows_) copy_into(shadow, buffer);
  });
}

void TrainStep::begin_planner_step(std::shared_ptr<memory::Account> account) {
  account->begin_step();
  account_ = std::move(account);
  if (offload_ != nullptr) offload_->host().begin_step();
}

void TrainStep::require_ready() const {
  if (!torn_.empty()) throw TornUpdate("train step", torn_);
  for (const auto& [buffer, module] : unshadowed_)
    expect<ValueError>(!module->training(), "train step",
                       "the module of '{}' is in training mode and was not when the step was made: "
                       "make another TrainStep",
                       buffer);
  expect<ValueError>(options_.ema == nullptr || !options_.ema->in_use(), "train step",
                     "the averages are in the model's place: end the EmaScope first");
}

void TrainStep::require_apart() const {
  expect<ValueError>(!options_.fused_update, "train step",
                     "with fused_update the update happens during backward, from the gradients of "
                     "one micro-step: call run(), or leave it off to accumulate gradients");
}

void TrainStep::require_begun() const {
  expect<ValueError>(account_ != nullptr, "train step",
                     "no update is under way: call begin() first, also after a failure");
}

Tensor TrainStep::forward(const LossFunction& loss, const MicroStepOptions& options,
                          const Saving& saving) {
  const double* live =
      recorder_ != nullptr ? static_cast<const double*>(live_.data()) + kLiveUpdate : nullptr;
  autograd::RandomScope random(options_.seed, static_cast<uint64_t>(attempts()),
                               options.first_sample, live);
  autograd::EffectScope effects(shadows_, share_of(options));
  autograd::SavePolicyScope policy(saving.policy());
  PrecisionScope precision(options_.precision);
  return loss();
}

double TrainStep::micro_step(const LossFunction& loss, const MicroStepOptions& options) {
  require_apart();
  require_begun();
  if (overflow_) return std::numeric_limits<double>::quiet_NaN();
  takes_factors_ = false;
  return or_undo([&] {
    const double value = run_part(loss, options);
    // Here, where what overflows can be run again; `prepare` reads the sum of all parts.
    if (options_.scaler == nullptr) return value;
    const std::optional<std::string> parameter = optimizer_.find_non_finite();
    if (parameter || !std::isfinite(value)) note_overflow(loss, options, parameter);
    return value;
  });
}

double TrainStep::run_part(const LossFunction& loss, const MicroStepOptions& options) {
  optimizer_.cancel();
  update_.reset();
  part_ = {std::exchange(first_, false) ? memory::SectionKind::first_micro_step
                                        : memory::SectionKind::micro_step,
           options.samples};
  memory::SectionScope section(account_, part_);
  return forward_backward(loss, options);
}

Tensor TrainStep::gradient_of(const Tensor& result, const MicroStepOptions& options) const {
  if (recorder_ != nullptr) return recorder_->gradient_of(result, options.weight);
  const double scale = options_.scaler == nullptr ? 1 : options_.scaler->scale();
  return full(result.shape(), scale * options.weight,
              {.dtype = result.dtype(), .device = result.device()});
}

// Of a loss of one element; 0 where there are no values yet.
double TrainStep::value_of(const Tensor& loss) const {
  if (recorder_ != nullptr) return recorder_->note_loss(loss), 0;
  return loss.device().is_meta() ? 0 : loss.item<double>();
}

Tensor TrainStep::forward_checked(const LossFunction& loss, const MicroStepOptions& options,
                                  const Saving& saving) {
  Tensor result = forward(loss, options, saving);
  expect<ShapeError>(result.defined() && result.numel() == 1, "train step",
                     "expected a loss of one element, got {}",
                     result.defined() ? to_string(result.shape()) : "no tensor");
  return result;
}

// Where the part is the update nobody looks at its gradients, and nothing is added to them.
void TrainStep::ask_for_factors(BackwardOptions& how, OnFactors on_factors) const {
  if (!takes_factors_) return;
  if (!how.on_leaf_complete) how.on_leaf_complete = [](const Tensor&) {};
  how.takes_factors = [this](const Tensor& leaf) { return optimizer_.takes_factors(leaf); };
  how.on_leaf_factors = std::move(on_factors);
}

void TrainStep::backward_of(const Tensor& result, const MicroStepOptions& options) {
  BackwardOptions how{.grad = gradient_of(result, options)};
  std::optional<NarrowGradients> narrow;
  if (options_.gradients != Dtype::float32) {
    narrow.emplace(parameters_, options_.gradients);
    how.on_leaf_complete = [&](const Tensor& leaf) { narrow->complete(leaf); };
  }
  ask_for_factors(how, [&](const Tensor& leaf, const autograd::GradientFactors& factors) {
    optimizer_.hold_factors(leaf, factors);
  });
  backward(result, std::move(how));
}

double TrainStep::forward_backward(const LossFunction& loss, const MicroStepOptions& options) {
  double value = 0;
  {
    Saving saving(*this);
    Tensor result = forward_checked(loss, options, saving);
    backward_of(result, options);
    value = value_of(result);
  }
  if (!std::isfinite(value) && options_.scaler == nullptr) explain(loss, options, value);
  return value;
}

void TrainStep::set_updates(int64_t updates, int64_t skipped) {
  updates_ = updates;
  skipped_ = skipped;
  torn_.clear();
}

std::optional<std::string> TrainStep::prepare_update(double rate) {
  update_.reset();  // where it is prepared again
  update_.emplace(account_, memory::Section{memory::SectionKind::update});
  const optim::UpdateOptions update{.rate = rate, .clip = options_.clip};
  return options_.scaler != nullptr ? options_.scaler->prepare(optimizer_, update)
                                    : optimizer_.prepare_if_finite(update);
}

const StepOutcome& TrainStep::prepare(double rate) {
  require_apart();
  require_begun();
  or_undo([&] {
    if (!overflow_)
      if (const std::optional<std::string> parameter = prepare_update(rate))
        note_lost_sum(*parameter);
    if (overflow_) return skip();
    if (recorder_ != nullptr) recorder_->judge();
    outcome_ = Applied{};
  });
  return outcome_;
}

void TrainStep::commit() noexcept {
  if (!optimizer_.is_prepared()) return;
  optimizer_.commit();
  finish();
}

// What comes after the optimizer's part.
void TrainStep::finish() noexcept {
  for (const auto& [buffer, shadow] : shadows_)
    recorder_ != nullptr ? recorder_->take_home(buffer, shadow) : copy_into(buffer, shadow);
  if (options_.ema != nullptr) options_.ema->update();
  if (options_.scaler != nullptr) {
    options_.scaler->forget_overflow();  // of others: nothing throws then
    options_.scaler->update();
  }
  outcome_ = Applied{};
  ++updates_;
  drop_gradients();
  end_planner_step();
}

void TrainStep::drop_gradients() noexcept {
  for (const Tensor& parameter : parameters_) parameter.set_grad(Tensor());
  optimizer_.drop_factors();
}

void TrainStep::end_planner_step() noexcept {
  update_.reset();
  if (account_ == nullptr) return;
  account_->end_step();
  if (offload_ != nullptr) offload_->host().end_step();
  account_.reset();
}

void TrainStep::undo() noexcept {
  optimizer_.cancel();
  overflow_.reset();
  if (options_.scaler != nullptr) options_.scaler->forget_overflow();
  drop_gradients();
  end_planner_step();
}

}  // namespace brim
