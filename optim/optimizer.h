// The base of optimizers. An update has two halves: `prepare` checks everything and may throw, and
// then nothing has changed; `commit` changes the parameters, and neither throws nor asks for bytes.
// State is created with the optimizer, so that the first update is like every other.
//
//   optim::Sgd sgd(model.named_parameters(), {.momentum = 0.9, .weight_decay = 1e-4});
//   backward(loss);
//   sgd.step(0.1);
//   sgd.zero_grad();
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "brim/autograd/gradient_factors.h"
#include "brim/nn/module.h"
#include "brim/optim/judge.h"
#include "brim/optim/parameter_groups.h"
#include "brim/optim/step_scalars.h"

namespace brim::optim {

struct UpdateOptions {
  double rate = 0;  ///< the learning rate; a number from 0
  /// What the loss was multiplied by before backward; gradients are divided by it.
  double loss_scale = 1;
  /// Refuse an update in which a gradient is infinite or NaN. This and `clip.norm` read every
  /// gradient once, together; without both the update alone does.
  bool check_finite = true;
  ClipOptions clip = {};
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Takes the gradients as they are now. A parameter without one is left as it is. Throws
  /// `ValueError` for a rate, scale or limit out of range, when no parameter has a gradient, or one
  /// is not finite, with the first one's name; `ShapeError`, `DtypeError` or `DeviceError` for one
  /// that does not match its parameter.
  void prepare(const UpdateOptions& options);
  /// The same, but that a gradient which is not finite is no error: nothing is prepared then, and
  /// the first such parameter's name is returned.
  std::optional<std::string> prepare_if_finite(const UpdateOptions& options);
  /// The first parameter whose gradient, as it is now, is not finite: one pass over them. Nothing
  /// on the meta device. Forgets what was prepared.
  std::optional<std::string> find_non_finite();
  /// Whether `prepare` has succeeded and neither `commit` nor `cancel` came after it.
  bool is_prepared() const { return !updates_.empty(); }
  /// Applies what was prepared, once; does nothing when nothing was.
  void commit() noexcept;
  /// Forgets what was prepared.
  void cancel() noexcept;
  /// Both halves.
  void step(const UpdateOptions& options) {
    prepare(options);
    commit();
  }
  void step(double rate) { step({.rate = rate}); }
  /// Drops all gradients, and factors.
  void zero_grad() noexcept;

  /// Can this parameter's gradient come as factors, and be made by the kernels that read it? So it
  /// is where all of them are on the CPU and of float32 or float64; once in an update.
  bool takes_factors(const Tensor& parameter) const;
  /// Keeps them as the parameter's gradient in place of `.grad()`, until `zero_grad`: the same bits
  /// as of the whole one, from fewer bytes. Only where `takes_factors`. Throws `ShapeError` or
  /// `DtypeError` for factors that do not match; `ValueError` where there is a gradient.
  void hold_factors(const Tensor& parameter, const autograd::GradientFactors& factors);
  /// Those that it holds.
  void drop_factors() noexcept;

  // The same update where its work on the device was recorded, and is started by somebody else
  // (train/step_graph.h): in place of `prepare` and `commit`.

  /// Sets the numbers of the step, for the recorded kernels to read. Before the first of them.
  void begin_replay(const UpdateOptions& options);
  /// To be recorded between `prepare` and `commit`: the device judges what was prepared
  /// (`kernel::judge_update`), with the loss, and leaves it at `verdict`. `rest` may be undefined.
  void judge_on_device(const Tensor& loss, const Tensor& verdict, const Tensor& rest);
  /// Counts an update that took place, with the norm of its gradients.
  void end_replay(double norm) noexcept;
  /// To be recorded after `begin_pieces`: the device judges the loss, and then each piece
  /// (`kernel::judge_piece`). `verdict` counts the pieces that took place. Until `end_pieces`.
  void judge_pieces_on_device(const Tensor& loss, const Tensor& verdict);
  /// Throws `ValueError` naming the parameter whose gradient was found not to be finite, the last
  /// of them where there are several, from which they come in backward; waits for the device.
  void raise_not_finite();

  // The same update in pieces, a parameter at a time, for backward to make as it goes: then not
  // all gradients are there at once. None of it can be undone. `train/train_step.h` calls these.

  /// Checks the options and sets the numbers of the step. Throws `ValueError` as `prepare` does,
  /// and for what needs all gradients before the first piece: `clip.norm`, and a loss scale, whose
  /// overflow is known at the end. Forgets what was prepared, and pieces without an end.
  void begin_pieces(const UpdateOptions& options);
  /// Updates one parameter from its gradient as it is now; returns false, and does nothing, where
  /// the tensor is none of this optimizer's. Throws what `prepare` throws for a gradient, and
  /// `ValueError` for a second piece of one parameter; the parameter is then as before. But where a
  /// gradient is not finite, that of the first piece alone: others may be checked while they are
  /// read for the update.
  bool update_piece(const Tensor& parameter);
  /// From the factors of its gradient, as `hold_factors` takes them. Throws what both do.
  void update_piece(const Tensor& parameter, const autograd::GradientFactors& factors);
  /// Parameters updated since `begin_pieces`; 0 after `end_pieces` and `cancel`.
  int64_t pieces() const { return std::ranges::count(updated_, true); }
  /// Counts the update. Throws `ValueError` when it had no pieces: nothing has changed then.
  void end_pieces();

  /// The norm of all gradients that the last `prepare` or pieces took, as one vector, divided by
  /// the loss scale and clipped by value but not by norm. Nothing on the meta device, and where
  /// neither `check_finite` nor `clip.norm` asked for it. The same bits with any number of threads.
  std::optional<double> gradient_norm() const { return gradient_norm_; }

  /// Updates so far.
  int64_t steps() const { return steps_; }
  /// For an optimizer that goes on from a checkpoint; throws `ValueError` when negative.
  void set_steps(int64_t steps);
  /// Those that it updates: of the ones given, those that asked for a gradient at that time.
  const std::vector<nn::NamedTensor>& parameters() const { return parameters_; }
  /// Another one with the same options for these parameters, which have the same names: for a
  /// rehearsal. `state`: it keeps its state in that type instead. Null where that is not known.
  virtual std::unique_ptr<Optimizer> like(std::vector<nn::NamedTensor> parameters,
                                          std::optional<Dtype> state = {}) const {
    (void)parameters, (void)state;
    return nullptr;
  }
  /// What a checkpoint keeps, beside `steps`: tensors to copy from or into.
  virtual std::vector<nn::NamedTensor> named_state() const { return {}; }

 protected:
  /// Leaves out parameters that ask for no gradient. Throws `ValueError` where none is left, and
  /// what `settings_of` throws; `DtypeError` unless they are float32 or float64, `DeviceError`
  /// unless they are on one device, which can run updates. Allocates in category `optimizer`.
  Optimizer(const char* name, std::vector<nn::NamedTensor> parameters, double weight_decay,
            const std::vector<ParameterGroup>& groups);
  /// Throws `DeviceError` where a parameter's device has no kernel of this name for it. To be
  /// called in the constructor for what `update` launches.
  void require_kernel(std::string_view kernel) const;
  /// Zeros like parameter i, in category `optimizer`; of type `dtype`, but float64 for one of
  /// float64. Throws `DtypeError` where that is neither float32 nor bfloat16.
  Tensor make_state(size_t i, Dtype dtype) const;
  /// Where the roundings of bfloat16 parameter i, or of its state `what`, come from.
  RandomKey rounding_key(uint64_t seed, const char* what, size_t i) const;
  /// As it is, or else its factors, as matrices; the other is undefined.
  struct Gradient {
    Tensor whole;
    autograd::GradientFactors factors = {};
  };
  /// Launches the update of parameter i. Where `square_sum` is defined, the kernel also leaves
  /// there what `kernel::square_sum` would. Must neither throw nor allocate. Kernels that gather
  /// (base/gathered.h) run when all parameters were asked for, behind others launched here.
  virtual void update(size_t i, const Gradient& gradient, const Tensor& square_sum) noexcept = 0;
  /// Can it be asked for sums of squares, on the CPU? Each gradient is read once then.
  virtual bool leaves_square_sums() const { return false; }
  /// Can it be given the factors of parameter i's gradient, on the CPU?
  virtual bool reads_factors(size_t i) const {
    (void)i;
    return false;
  }

  const char* name() const { return name_; }
  const Tensor& parameter(size_t i) const { return parameters_[i].tensor; }
  const ParameterSettings& settings(size_t i) const { return settings_[i]; }
  const Tensor& scalars() const { return scalars_.buffer(); }

 private:
  friend class Combined;  // calls its parts' updates, with numbers of its own
  struct Update {
    size_t parameter;
    Gradient gradient;
  };
  void require_match(const nn::NamedTensor& parameter, const Tensor& gradient) const;
  void require_alone(const nn::NamedTensor& parameter) const;
  autograd::GradientFactors matrices_of(const Tensor& parameter,
                                        const autograd::GradientFactors& factors) const;
  std::vector<Update> take_gradients();
  void set_numbers(const UpdateOptions& options);
  void begin_update(const UpdateOptions& options);
  void set_clip_factor();
  void sum_squares(const Update& update);
  bool checks_on_the_way() const;
  void update_checked(const Update& piece);
  void check_sum(size_t parameter, PieceJudged judged);
  std::optional<std::string> measure(const std::vector<Update>& updates);
  /// Of all parameters, where the host can read them: waits for the device. Not on the meta device.
  const double* square_sums();

  const char* name_;
  std::vector<nn::NamedTensor> parameters_;
  std::unordered_map<const TensorBody*, size_t> numbers_;  // of parameters
  std::vector<ParameterSettings> settings_;
  StepScalars scalars_;
  Tensor square_sums_;                    // float64, one per parameter
  std::vector<double> square_sums_here_;  // the last copy, where these are on another device
  std::optional<double> gradient_norm_;
  std::vector<autograd::GradientFactors> factors_;  // of each parameter; held, or undefined
  std::vector<Update> updates_;
  StepValues values_;
  UpdateOptions options_;      // of the update under way
  std::vector<bool> updated_;  // by a piece; one for each parameter
  Tensor verdict_;             // of pieces that are recorded; else undefined
  int64_t steps_ = 0;
};

/// Throws `ValueError`, naming the option, unless it is a number in [low, high].
void require_in_range(const char* optimizer, const char* option, double value, double low,
                      double high);

}  // namespace brim::optim

namespace brim::kernel {

/// in: gradient, contiguous, and the `StepScalars`; on the CPU, in its place, there may be factors
/// behind these, [M, K] and [M, N]. out: float64 [1], the sum of the squares of its elements,
/// unscaled and clipped. NaN when an element of the gradient is infinite or NaN, and only then.
inline constexpr Kernel<NoAttributes> square_sum{"square_sum"};

}  // namespace brim::kernel
