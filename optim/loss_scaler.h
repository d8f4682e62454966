// Loss scaling for training in float16: gradients of activations are small, and below 6e-8 float16
// has nothing but 0. So the loss is multiplied before backward, and gradients are divided as the
// update reads them. The scale grows until gradients overflow, which costs an update, and then
// backs off. Micikevicius et al., "Mixed Precision Training", ICLR 2018, section 3.2; PyTorch's
// GradScaler. bfloat16 reaches as far as float32 and needs none.
//
// `TrainStep` does all of it (train/train_step.h, `TrainStepOptions::scaler`). In a loop of one's
// own, with as many optimizers as there are:
//
//   optim::LossScaler scaler;
//   backward(loss, {.grad = full(loss.shape(), scaler.scale())});
//   auto overflow = scaler.step(sgd, {.rate = 0.1});  // nothing: applied
//   scaler.update();
//   sgd.zero_grad();
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "brim/optim/optimizer.h"

namespace brim::optim {

/// Factors of two are exact: gradients then have the same bits at every scale, but for what
/// underflows or overflows.
struct LossScalerOptions {
  double initial = 65536;
  double growth = 2;     ///< after `growth_interval` updates in a row without an overflow
  double backoff = 0.5;  ///< after one with
  int64_t growth_interval = 2000;
  /// At which an overflow is an error: the gradients themselves are too large. Normal as a float.
  double floor = 1;
};

/// What an update changes of a scaler: what a checkpoint keeps.
struct LossScalerState {
  double scale = 0;
  int64_t finite_in_a_row = 0;  ///< updates since the scale last changed
  friend bool operator==(const LossScalerState&, const LossScalerState&) = default;
};

class LossScaler {
 public:
  /// Throws `ValueError` for a scale, factor or number that makes no sense, by name.
  explicit LossScaler(const LossScalerOptions& options = {});
  /// The same scale for ever; updates that overflow are skipped all the same, at any number of
  /// them.
  static LossScaler fixed(double scale);

  double scale() const { return state_.scale; }

  /// Prepares the update and commits it; where a gradient is not finite, nothing changes, and the
  /// first such parameter's name is returned. `loss_scale` of the options is set to `scale`. Throws
  /// what `Optimizer::prepare` throws else.
  std::optional<std::string> step(Optimizer& optimizer, UpdateOptions options);
  /// The first half of `step`: prepares, or notes the overflow.
  std::optional<std::string> prepare(Optimizer& optimizer, UpdateOptions options);
  /// Notes one that was found in another way: in the loss, or in a part of the update.
  void note_overflow() { overflowed_ = true; }
  /// Of an update that failed, or is tried again.
  void forget_overflow() { overflowed_ = false; }

  /// Would an overflow now be an error?
  bool is_at_floor() const { return options_.backoff * state_.scale < options_.floor; }
  /// Once after the steps of all optimizers: backs off where one of them overflowed, else grows
  /// when it is time to. Throws `ValueError` for an overflow at the floor; nothing changes then,
  /// and the overflow is forgotten.
  void update();

  const LossScalerState& state() const { return state_; }
  /// For a training that goes on from a checkpoint. Throws `ValueError` for a state that no
  /// scaler with these options can have.
  void set_state(const LossScalerState& state);

 private:
  LossScalerOptions options_;
  LossScalerState state_;
  bool overflowed_ = false;  // since the last `update`
};

}  // namespace brim::optim
