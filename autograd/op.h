// What an op is to autograd. An object of a class derived from `Op` is one call: its members are
// the attributes. `forward` is a pure function of (inputs, attributes, random address), so it can
// run again at any time and give the same bits; effects on the world, such as running statistics,
// are kept apart in `apply_effects`, which happens once.
//
//   class Square final : public autograd::Op {
//    public:
//     const char* name() const override { return "square"; }
//     Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override;
//     autograd::Saves saves(const autograd::Needs&) const override { return {.inputs = {0}}; }
//     Tensors backward(autograd::BackwardCall& call) const override;
//   };
//   Tensor square(Tensor x, Where where = Where::current()) {
//     return autograd::apply_one(std::make_shared<Square>(), {std::move(x)}, where);
//   }
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "brim/autograd/gradient_factors.h"
#include "brim/autograd/random_context.h"
#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

using Tensors = std::vector<Tensor>;

namespace autograd {

class Node;
class Op;
class SavedRows;

struct ForwardContext {
  RandomAddress random;
  /// False when nothing will be differentiated: outputs meant only for backward may be left
  /// undefined.
  bool for_backward = false;
  /// The input in whose place the first output may be written, one of `Op::overwrites`; -1 for
  /// none. `output_over` (ops/reuse.h) heeds it.
  int overwrite = -1;
};

/// Which inputs want a gradient.
using Needs = std::vector<bool>;

/// What backward will read: numbers of inputs and outputs of the call.
struct Saves {
  std::vector<int> inputs, outputs;
};

/// What is known of a tensor without its values.
struct TensorInfo {
  Shape shape;
  Dtype dtype = Dtype::float32;
  Device device;
  TensorOptions options() const { return {.dtype = dtype, .device = device}; }
  int64_t bytes() const { return numel(shape) * size_of(dtype); }
};
/// Of each tensor; of an undefined one, as it is by default.
std::vector<TensorInfo> infos_of(const Tensors& tensors);
/// Of all of them.
int64_t bytes_of(std::span<const TensorInfo> infos);

class FactorsTaker;

/// What `Op::backward` works on.
class BackwardCall {
 public:
  BackwardCall(Node& node, Tensors& grads, bool retain_graph, FactorsTaker* taker = nullptr)
      : node_(node), grads_(grads), retain_graph_(retain_graph), taker_(taker) {}

  /// Gradient of visible output i, of its shape and dtype, contiguous; zeros when nothing flowed
  /// there.
  Tensor grad(int i = 0) const;
  /// The same, handed over: when the caller holds the only handle, it may be overwritten.
  Tensor take_grad(int i = 0);
  /// The same as it came, which may be with strides: for who copies it, or makes a view of it.
  Tensor take_grad_view(int i = 0);
  /// Saved input or output; throws `AutogradError` when something wrote to it since.
  Tensor input(int i) const;
  Tensor output(int i) const;
  /// A saved input for its last use: the tape lets go of it, unless the graph is retained, so its
  /// bytes are free for what the rest of the call asks for. Once.
  Tensor take_input(int i);
  /// The same, to be read by rows of its first dimension (saved_rows.h); for ops that say
  /// `reads_rows` of it.
  SavedRows take_input_rows(int i);
  /// Was saved output i dropped, so that the inputs are to be read instead? Only where
  /// `Op::derives_output` says so; `replay_input` has them then, whether they were saved or not.
  bool is_derived(int i) const;
  Tensor replay_input(int i) const;
  const TensorInfo& input_info(int i) const;
  const TensorInfo& output_info(int i) const;
  int inputs() const;
  /// Does input i want a gradient? Others may be left undefined.
  bool needs(int i) const;
  /// The sum of the gradients of input i that other calls have given, handed over for backward to
  /// add its own in place and return it; contiguous, and nobody else's. Undefined where there is
  /// none.
  Tensor take_sum(int i);
  /// May backward give the factors of input i's gradient instead, and leave it undefined?
  bool takes_factors(int i) const;
  /// Only where `takes_factors`.
  void give_factors(int i, GradientFactors factors);
  const RandomAddress& random() const;

 private:
  Tensor grad_view(int i) const;

  Node& node_;
  Tensors& grads_;
  bool retain_graph_;
  FactorsTaker* taker_;
};

class Op {
 public:
  virtual ~Op() = default;
  /// The tag of its errors: "conv2d".
  virtual const char* name() const = 0;
  /// Validates, infers shapes, allocates, launches. Outputs beyond `visible_outputs()` are for
  /// backward alone.
  virtual Tensors forward(const Tensors& inputs, const ForwardContext& context) const = 0;
  /// `forward` once more, for backward, with the same inputs and the same bits. An op that saved
  /// statistics among its outputs can start from those that are defined in `known`.
  virtual Tensors forward_again(const Tensors& inputs, const Tensors& known,
                                const ForwardContext& context) const;
  /// Does it make each element of its outputs from a few elements of its inputs, or from statistics
  /// that it saved? To run it again then costs one pass over memory.
  virtual bool is_one_pass() const { return false; }
  /// Of rows of the first dimension of its inputs and its anchors (of those that have as many as
  /// the first output and as many dimensions; the others whole), does `forward_again` make the same
  /// rows of the first output, to the bit? For elementwise ops, and what is one per channel.
  virtual bool is_rowwise() const { return false; }
  /// Outputs that `forward_again` starts from, or leaves undefined: they are not dropped. Small
  /// ones. An op that must not run twice, since what it does cannot be parted from what it
  /// computes, names all its outputs.
  virtual std::vector<int> anchors() const { return {}; }
  virtual int visible_outputs() const { return 1; }
  virtual Saves saves(const Needs&) const { return {}; }
  /// Inputs in whose place forward can write its first output, since it reads each of their
  /// elements before it writes there, and nothing of them after it. What is saved is never
  /// overwritten, so they may be saved too.
  virtual std::vector<int> overwrites() const { return {}; }
  /// Does backward read saved input i by rows, with `BackwardCall::take_input_rows`? Then it is not
  /// made again as a whole before, where its rows can be.
  virtual bool reads_rows(int, std::span<const TensorInfo>, std::span<const TensorInfo>) const {
    return false;
  }
  /// Does backward do without saved output i where `BackwardCall::is_derived` says to read the
  /// inputs instead? The bits must be the same.
  virtual bool derives_output(int) const { return false; }
  /// One gradient per input; undefined where `call.needs(i)` is false.
  virtual Tensors backward(BackwardCall& call) const = 0;
  /// Effects beyond the outputs; runs once per call, never on replay. Write through
  /// `effect_target`.
  virtual void apply_effects(const Tensors&, const Tensors&) const {}
  /// Floating point operations of one forward; by default one per element of the outputs.
  virtual double flops(std::span<const TensorInfo> inputs,
                       std::span<const TensorInfo> outputs) const;
  /// Draws random numbers: an address is reserved for the call.
  virtual bool is_random() const { return false; }
  /// Results carry no gradient (comparisons, index computations).
  virtual bool is_differentiable() const { return true; }
};

/// The inputs of a call: `Tensors`, or `{std::move(a), std::move(b)}`, which moves where a list of
/// initial values would hold a copy of each handle during the call.
class Inputs {
 public:
  Inputs(Tensors tensors) : tensors_(std::move(tensors)) {}
  template <std::same_as<Tensor>... T>
  Inputs(T... tensors) {
    tensors_.reserve(sizeof...(tensors));
    (tensors_.push_back(std::move(tensors)), ...);
  }
  Tensors take() && { return std::move(tensors_); }

 private:
  Tensors tensors_;
};

/// Runs the op and, when a gradient may be wanted, records it on the tape. Returns the visible
/// outputs. On an error nothing has changed, but inputs that nobody else holds are lost.
Tensors apply(std::shared_ptr<const Op> op, Inputs inputs, Where where);
/// As `apply`, for ops with one visible output.
Tensor apply_one(std::shared_ptr<const Op> op, Inputs inputs, Where where);

/// True unless a `NoGradScope` is active: are ops recorded on this thread?
bool grad_enabled();
/// Switches recording for this thread until the scope ends.
class GradModeScope {
 public:
  explicit GradModeScope(bool enabled);
  ~GradModeScope();
  GradModeScope(const GradModeScope&) = delete;
  GradModeScope& operator=(const GradModeScope&) = delete;

 private:
  bool before_;
};
class NoGradScope : public GradModeScope {
 public:
  NoGradScope() : GradModeScope(false) {}
};

enum class Phase { forward, backward, recompute };

/// One run of an op, forward (inputs, all outputs), backward (gradients of the outputs, of which
/// those that the op took are undefined by now, and of the inputs, with what had flowed there where
/// the op added to that), or forward once more to make a dropped value again (recompute).
struct OpEvent {
  const Op& op;
  Phase phase;
  const Tensors& inputs;
  const Tensors& outputs;
  const ForwardContext& context;
  const Where& where;
  const std::string& module;
  const Node* node = nullptr;  ///< of backward and recompute: the recorded call
  int overwritten = -1;  ///< of forward: the input that holds the first output's values by now
  /// Of backward: the input whose gradient came in factors, and is undefined above; and these.
  int factored = -1;
  const GradientFactors* factors = nullptr;
};

/// Sees every op of this thread after it ran, until it is destroyed. Observers nest.
class OpObserver {
 public:
  OpObserver();
  virtual ~OpObserver();
  OpObserver(const OpObserver&) = delete;
  OpObserver& operator=(const OpObserver&) = delete;
  virtual void ran(const OpEvent& event) = 0;

 private:
  friend void notify(const OpEvent& event);
  OpObserver* before_;
};
void notify(const OpEvent& event);
/// The gradient that came in factors, in host memory (`product_on_host`).
Tensor factored_gradient(const OpEvent& event);

}  // namespace autograd
}  // namespace brim
