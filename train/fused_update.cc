// Updates during backward: `TrainStep` with `fused_update`.
#include <cmath>
#include <exception>

#include "brim/autograd/backward.h"
#include "brim/base/exception_text.h"
#include "brim/base/stop.h"
#include "brim/train/step_graph.h"
#include "brim/train/step_saving.h"
#include "brim/train/train_step.h"

namespace brim {
double TrainStep::run_fused(double rate, const LossFunction& loss,
                            const MicroStepOptions& options) {
  const StopScope whole(nullptr);  // what cannot be undone is done to its end
  try {
    double value = forward_backward_update(rate, loss, options);
    // What an update does besides; reports and plans find a step's usual parts.
    update_.emplace(account_, memory::Section{memory::SectionKind::update});
    if (recorder_ != nullptr) recorder_->judge();
    optimizer_.end_pieces();
    finish();
    return value;
  } catch (...) {
    if (optimizer_.pieces() > 0 && recorder_ == nullptr) tear(optimizer_.pieces());
    undo();
    throw;
  }
}

double TrainStep::forward_backward_update(double rate, const LossFunction& loss,
                                          const MicroStepOptions& options) {
  memory::SectionScope section(account_, {memory::SectionKind::first_micro_step, options.samples});
  Saving saving(*this);
  Tensor result = forward_checked(loss, options, saving);
  double value = value_of(result);
  if (!std::isfinite(value)) {
    result = Tensor();
    explain(loss, options, value);
  }
  optimizer_.begin_pieces({.rate = rate, .clip = options_.clip});
  if (recorder_ != nullptr) recorder_->judge_pieces();
  BackwardOptions how{.grad = gradient_of(result, options),
                      .on_leaf_complete = [&](const Tensor& leaf) {
                        if (optimizer_.update_piece(leaf)) leaf.set_grad(Tensor());
                      }};
  ask_for_factors(how, [&](const Tensor& leaf, const autograd::GradientFactors& factors) {
    optimizer_.update_piece(leaf, factors);
  });
  backward(result, std::move(how));
  return value;
}

// Within a handler of what failed.
void TrainStep::tear(int64_t pieces) {
  torn_ = fmt::format(
      "update {} failed after {} of {} parameters had changed, which cannot be undone: put "
      "parameters and the optimizer's state back from a checkpoint, then call set_updates(). The "
      "cause: {}",
      updates_, pieces, optimizer_.parameters().size(), exception_text(std::current_exception()));
  undo();
  std::throw_with_nested(TornUpdate("train step", torn_));
}

}  // namespace brim
