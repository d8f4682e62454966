// Batch norm layer: `brim::batch_norm` with parameters and running statistics of its own. Give the
// residual and the activation that follow to the same call: they are free there. In training the
// statistics are those of one call: a batch of a few images has poor ones, and micro-steps do not
// add up to a larger batch. Call `eval()` to use the running ones. Weight and bias are always there
// (no `affine=False`).
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "brim/nn/module.h"
#include "brim/ops/batch_norm.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/normalized_conv2d.h"

namespace brim::nn {

class BatchNorm2d;
class Conv2d;

/// The result of a convolution whose norm is left to the convolution that reads it, and is applied
/// on the way into that where it spares passes over memory: `BatchNorm2d::pending` makes it,
/// `Conv2d::for_norm` takes it, once. Not longer than the norm lives.
class PendingNorm {
 public:
  /// No norm: x as it is.
  explicit PendingNorm(Tensor x) : x_{std::move(x), {}, {}} {}
  PendingNorm(PendingNorm&&) = default;
  PendingNorm& operator=(PendingNorm&&) = default;

  /// Calls the norm.
  Tensor apply() &&;

 private:
  friend BatchNorm2d;
  friend Conv2d;
  PendingNorm(Conv2dWithStatistics x, BatchNorm2d& norm, Activation activation, Where where)
      : x_(std::move(x)), norm_(&norm), activation_(activation), where_(where) {}

  Conv2dWithStatistics x_;
  BatchNorm2d* norm_ = nullptr;
  Activation activation_ = Activation::none;
  const std::string* module_ = &autograd::module_path();  // which the norm is below
  Where where_;
};

struct BatchNorm2dOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;
  /// First value of the weight. 0 in the last norm of a residual branch makes the block start as
  /// the identity (Goyal et al., "Accurate, Large Minibatch SGD", 2017).
  double weight = 1;
};

/// [...,C] -> [...,C]. Parameters: weight, bias [C]; buffers: running_mean, running_var [C].
class BatchNorm2d final : public Module {
 public:
  struct Fused {
    Tensor residual;  ///< added before the activation; or undefined
    Activation activation = Activation::none;
  };

  explicit BatchNorm2d(int64_t channels, const BatchNorm2dOptions& options = {});
  using Module::operator();
  /// `bn(x, {.residual = shortcut, .activation = Activation::relu})`
  Tensor operator()(Tensor x, Fused fused, Where where = Where::current());
  /// Of `conv.for_norm(x)`.
  Tensor operator()(Conv2dWithStatistics x, Fused fused, Where where = Where::current());
  Tensor operator()(Conv2dWithStatistics x, Where where = Where::current());
  /// `conv2.for_norm(bn.pending(conv1.for_norm(x), Activation::relu))` is
  /// `conv2.for_norm(bn(conv1.for_norm(x), {.activation = Activation::relu}))`; gradients may be
  /// summed in another order (ops/normalized_conv2d.h).
  PendingNorm pending(Conv2dWithStatistics x, Activation activation,
                      Where where = Where::current());
  /// For `Conv2d::for_norm`: what `brim::batch_norm` would be called with, or nothing where this is
  /// not that op in training, with the statistics of the batch given, while ops are recorded.
  std::optional<BatchNormArguments> arguments_for(const PendingNorm& pending);
  Tensor forward(Tensor x) override;
  std::string_view kind() const override { return "BatchNorm2d"; }
  double epsilon() const { return options_.epsilon; }
  /// For `fold_batch_norms` (nn/fold.h): the convolution has this norm in its weight by now. The
  /// norm keeps no tensors, and runs the convolution with what it fuses.
  void fold_into(Conv2d& convolution);

  Tensor weight, bias, running_mean, running_var;

 private:
  Tensor run(Conv2dWithStatistics x, Fused fused);
  Tensor run_unfused(Conv2dWithStatistics x, Fused fused);
  BatchNormOptions options_for(Fused fused, const Conv2dWithStatistics& x) const;

  BatchNorm2dOptions options_;
  Conv2d* convolution_ = nullptr;  // where it is folded
};

/// While it lives, batch norms of this thread call one after another what they would fuse: the
/// norm, the sum with the residual, the activation. The same function in more passes over memory
/// and with more saved tensors, up to the rounding of half types between the calls: what the fused
/// one is measured against. Scopes nest.
class UnfusedScope {
 public:
  UnfusedScope();
  ~UnfusedScope();
  UnfusedScope(const UnfusedScope&) = delete;
  UnfusedScope& operator=(const UnfusedScope&) = delete;
};

}  // namespace brim::nn
