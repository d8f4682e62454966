#include "brim/train/train_step.h"

#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/autograd/effects.h"
#include "brim/train/non_finite.h"

namespace brim {

namespace {

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

}  // namespace

TrainStep::TrainStep(nn::Module& model, optim::Optimizer& optimizer, TrainStepOptions options)
    : optimizer_(optimizer), options_(options) {
  for (const nn::NamedTensor& parameter : model.named_parameters())
    parameters_.push_back(parameter.tensor);
  model.name_in_account();
  memory::CategoryScope category(memory::Category::other);
  model.for_each_slot([&](const std::string& name, const nn::Module::Slot& slot) {
    if (slot.is_parameter) return;
    if (!slot.owner->training()) {
      unshadowed_.emplace_back(name, slot.owner);
      return;
    }
    memory::SiteScope site({.op = "shadow", .module = &autograd::kept_path(name)});
    shadows_.emplace_back(*slot.tensor, clone(*slot.tensor));
  });
}

double TrainStep::run(double rate, const LossFunction& loss, const MicroStepOptions& options) {
  begin();
  double value = micro_step(loss, options);
  prepare(rate);
  commit();
  return value;
}

template <class Part>
auto TrainStep::or_undo(const Part& part) {
  try {
    return part();
  } catch (...) {
    undo();
    throw;
  }
}

void TrainStep::begin() {
  undo();  // a step that was left half done
  require_ready();
  or_undo([&] {
    auto account =
        memory::account(parameters_.empty() ? Device::cpu() : parameters_.front().device());
    account->begin_step();
    account_ = std::move(account);
    first_ = true;
    for (const auto& [buffer, shadow] : shadows_) copy_into(shadow, buffer);
  });
}

void TrainStep::require_ready() const {
  for (const auto& [buffer, module] : unshadowed_)
    expect<ValueError>(!module->training(), "train step",
                       "the module of '{}' is in training mode and was not when the step was made: "
                       "make another TrainStep",
                       buffer);
  expect<ValueError>(options_.ema == nullptr || !options_.ema->in_use(), "train step",
                     "the averages are in the model's place: end the EmaScope first");
}

void TrainStep::require_begun() const {
  expect<ValueError>(account_ != nullptr, "train step",
                     "no update is under way: call begin() first, also after a failure");
}

Tensor TrainStep::forward(const LossFunction& loss, const MicroStepOptions& options) {
  autograd::RandomScope random(options_.seed, static_cast<uint64_t>(updates_),
                               options.first_sample);
  autograd::EffectScope effects(shadows_, share_of(options));
  return loss();
}

double TrainStep::micro_step(const LossFunction& loss, const MicroStepOptions& options) {
  require_begun();
  optimizer_.cancel();
  update_.reset();
  auto kind = std::exchange(first_, false) ? memory::SectionKind::first_micro_step
                                           : memory::SectionKind::micro_step;
  return or_undo([&] {
    memory::SectionScope section(account_, {kind, options.samples});
    return forward_backward(loss, options);
  });
}

double TrainStep::forward_backward(const LossFunction& loss, const MicroStepOptions& options) {
  Tensor result = forward(loss, options);
  expect<ShapeError>(result.defined() && result.numel() == 1, "train step",
                     "expected a loss of one element, got {}",
                     result.defined() ? to_string(result.shape()) : "no tensor");
  backward(result, {.grad = full(result.shape(), options.weight,
                                 {.dtype = result.dtype(), .device = result.device()})});
  if (result.device().is_meta()) return 0;
  auto value = result.item<double>();
  if (!std::isfinite(value)) explain(loss, options, value);
  return value;
}

void TrainStep::explain(const LossFunction& loss, const MicroStepOptions& options, double value) {
  drop_gradients();  // room for the second run
  std::string found;
  {
    NonFiniteFinder finder;
    backward(forward(loss, options));
    found = finder.report();
  }
  if (found.empty())
    found = "a second run of the same step was finite: the loss is not a function of its inputs";
  raise<ValueError>("train step", "the loss became {} at update {}; {}", value, updates_, found);
}

void TrainStep::prepare(double rate) {
  require_begun();
  or_undo([&] {
    update_.reset();  // where it is prepared again
    update_.emplace(account_, memory::Section{memory::SectionKind::update});
    optimizer_.prepare({.rate = rate, .clip = options_.clip});
  });
}

void TrainStep::commit() noexcept {
  if (!optimizer_.is_prepared()) return;
  optimizer_.commit();
  for (const auto& [buffer, shadow] : shadows_) copy_into(buffer, shadow);
  if (options_.ema != nullptr) options_.ema->update();
  ++updates_;
  drop_gradients();
  end_planner_step();
}

void TrainStep::drop_gradients() noexcept {
  for (const Tensor& parameter : parameters_) parameter.set_grad(Tensor());
}

void TrainStep::end_planner_step() noexcept {
  update_.reset();
  if (account_ != nullptr) account_->end_step();
  account_.reset();
}

void TrainStep::undo() noexcept {
  optimizer_.cancel();
  drop_gradients();
  end_planner_step();
}

}  // namespace brim
