// What `TrainStep` does where a loss or a gradient is not finite: it says where that began, and
// skips the update where a loss scaler is there to mend it.
#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/train/non_finite.h"
#include "brim/train/step_graph.h"
#include "brim/train/step_saving.h"
#include "brim/train/train_step.h"

namespace brim {
namespace {

constexpr const char* kFiniteAgain =
    "a second run of the same step was finite: the loss is not a function of its inputs";

std::string not_finite(const std::string& parameter) {
  return fmt::format("the gradient of '{}' is not finite, and no op's result was not", parameter);
}

}  // namespace

// Runs the part once more. Nobody wants the gradients, and with `fused_update` there is no room for
// all; in bfloat16 they are added to those that are there, as planned.
std::optional<NonFinite> TrainStep::observe(const LossFunction& loss,
                                            const MicroStepOptions& options) {
  NonFiniteFinder finder;
  Saving saving(*this);
  Tensor result = forward(loss, options, saving);
  if (options_.gradients != Dtype::float32) {
    backward_of(result, options);
    return finder.found();
  }
  BackwardOptions how{.grad = gradient_of(result, options),
                      .on_leaf_complete = [](const Tensor& leaf) { leaf.set_grad(Tensor()); }};
  ask_for_factors(how, [](const Tensor&, const autograd::GradientFactors&) {});
  backward(std::move(result), std::move(how));
  return finder.found();
}

void TrainStep::explain(const LossFunction& loss, const MicroStepOptions& options, double value) {
  drop_gradients();  // room for the second run
  const std::optional<NonFinite> found = observe(loss, options);
  raise<ValueError>("train step", "the loss became {} at update {}; {}", value, updates_,
                    found ? found->text : kFiniteAgain);
}

// The part runs again under observation, in the bytes that are planned for it: the first one as
// that of an update begun anew, another one on top of the gradients that are there.
std::optional<NonFinite> TrainStep::observe_again(const LossFunction& loss,
                                                  const MicroStepOptions& options) {
  update_.reset();
  if (part_.kind == memory::SectionKind::first_micro_step) {
    drop_gradients();
    auto account = account_;
    end_planner_step();
    begin_planner_step(std::move(account));
  }
  memory::SectionScope section(account_, part_);
  return observe(loss, options);
}

void TrainStep::note_overflow(const LossFunction& loss, const MicroStepOptions& options,
                              const std::optional<std::string>& parameter) {
  overflow_ = {.step = attempts(), .scale = options_.scaler->scale()};
  if (std::optional<NonFinite> found = observe_again(loss, options)) {
    overflow_->first_overflow_module = std::move(found->module);
    overflow_->op = std::move(found->op);
    overflow_->phase = found->phase;
    overflow_->text = std::move(found->text);
  } else {
    // A sum of several gradients, or what a hook made of one.
    overflow_->text = parameter ? not_finite(*parameter) : kFiniteAgain;
  }
}

// Found in the sum of all parts.
void TrainStep::note_lost_sum(const std::string& parameter) {
  if (options_.scaler == nullptr)
    raise<ValueError>("train step", "at update {} the gradient of '{}' is not finite", updates_,
                      parameter);
  overflow_ = {
      .step = attempts(), .scale = options_.scaler->scale(), .text = not_finite(parameter)};
}

void TrainStep::skip() {
  expect<ValueError>(!options_.scaler->is_at_floor(), "train step",
                     "update {} overflows at every scale of the loss, down to {}; {}", attempts(),
                     overflow_->scale, overflow_->text);
  options_.scaler->note_overflow();
  options_.scaler->update();
  outcome_ = std::move(*overflow_);
  ++skipped_;
  undo();
}

// One part is the whole update: its gradients are read once, to find what is not finite and the
// norm.
double TrainStep::run_whole(double rate, const LossFunction& loss,
                            const MicroStepOptions& options) {
  const double result = run_part(loss, options);
  std::optional<std::string> parameter;
  if (std::isfinite(result)) parameter = prepare_update(rate);
  if (!parameter && std::isfinite(result)) {
    if (recorder_ != nullptr) recorder_->judge();
    return result;
  }
  if (options_.scaler == nullptr) {
    const std::optional<NonFinite> found = observe_again(loss, options);
    raise<ValueError>(
        "train step", "at update {} {}", updates_,
        found ? fmt::format("the gradient of '{}' is not finite; {}", *parameter, found->text)
              : not_finite(*parameter));
  }
  note_overflow(loss, options, parameter);
  skip();
  return result;
}

}  // namespace brim
