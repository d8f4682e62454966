// Exponential moving average of a model's weights (Polyak and Juditsky, "Acceleration of Stochastic
// Approximation by Averaging", 1992): a second set of values, which moves towards the weights after
// each update and is often better in validation than they are. `TrainStep` moves it in its commit;
// an `EmaScope` puts it into the model's place to evaluate or to save. It costs as many bytes as
// the weights, and gains little where the rate goes down to zero by itself.
//
//   optim::Ema ema(model, {.decay = 0.999});
//   TrainStep step(model, optimizer, {.ema = &ema});
//   ...
//   optim::EmaScope averaged(ema);  // until the end of this block
//   evaluate(model, validation, input);
#pragma once

#include "brim/core/launch.h"
#include "brim/nn/module.h"

namespace brim::optim {

struct EmaOptions {
  double decay = 0.999;  ///< in [0, 1); about 1 / (1 - decay) updates are averaged
  /// In update n, from 1, decay by no more than n / (n + 9), for trainings that are short beside
  /// 1 / (1 - decay): the values of the first updates are then soon forgotten.
  bool warmup = false;
  /// Average running statistics too, as PyTorch's AveragedModel does with use_buffers: they then
  /// belong to the averaged weights. Else the scope leaves those of the last update in place.
  bool buffers = true;
};

/// Averages of what training changes: parameters that ask for a gradient and, of modules that are
/// in training mode, the buffers, as far as they are float32 or float64. Everything else is the
/// same in both, and takes no bytes. A tensor that several modules share has one average, under the
/// first of its names. So freeze first, and make one anew after `Module::to`.
class Ema {
 public:
  /// Copies the values that there are, in category `optimizer`. Throws `ValueError` for a decay out
  /// of range, `ShapeError` for a parameter that is not contiguous, `DeviceError` for one on a
  /// device without the kernels, `memory::OutOfMemory`.
  explicit Ema(nn::Module& model, const EmaOptions& options = {});
  Ema(const Ema&) = delete;
  Ema& operator=(const Ema&) = delete;

  /// average = value in the first update, afterwards average + (1 - decay) * (value - average).
  /// Neither allocates nor throws. Not to be called inside an `EmaScope`.
  void update() noexcept;
  /// The same where its work on the device was recorded, and is started by somebody else
  /// (train/step_graph.h): sets the decay, which it reads; and counts the update.
  void begin_replay() noexcept;
  void end_replay() noexcept { ++updates_; }
  /// 1 - decay of the update, float64 [1] on the averages' device; undefined where there are none.
  /// Where it is 0 the averages stay as they are.
  const Tensor& rest() const { return rest_; }
  const EmaOptions& options() const { return options_; }
  /// Updates so far.
  int64_t updates() const { return updates_; }
  /// For averages that go on from a checkpoint; throws `ValueError` when negative.
  void set_updates(int64_t updates);
  /// What a checkpoint keeps, beside `updates`: "ema.<parameter or buffer>".
  std::vector<nn::NamedTensor> named_state() const;
  /// Whether the averages are in the model's place.
  bool in_use() const { return in_use_; }

 private:
  friend class EmaScope;
  struct Pair {
    std::string name;
    Tensor value, average;
  };
  void swap() noexcept;

  EmaOptions options_;
  std::vector<Pair> pairs_;
  Tensor rest_;  // float64 [1]: 1 - decay of the update
  int64_t updates_ = 0;
  bool in_use_ = false;
};

/// While it lives, the averages are the model's values, and the values that train are kept where
/// the averages were: nothing is copied to other bytes. No training step can begin meanwhile.
class EmaScope {
 public:
  /// Throws `ValueError` inside another scope of the same averages.
  explicit EmaScope(Ema& ema);
  ~EmaScope();
  EmaScope(const EmaScope&) = delete;
  EmaScope& operator=(const EmaScope&) = delete;

 private:
  Ema& ema_;
};

}  // namespace brim::optim

namespace brim::kernel {

/// in: value, and float64 [1], 1 - decay; out: average, which moves towards the value: to it where
/// that is 1, and not at all where it is 0. Contiguous.
inline constexpr Kernel<NoAttributes> ema{"ema", /*updates=*/true};
/// out: two tensors, which exchange their values. Contiguous.
inline constexpr Kernel<NoAttributes> ema_swap{"ema_swap", /*updates=*/true};

}  // namespace brim::kernel
