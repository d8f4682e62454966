// The `Op` of batch norm, for authors of ops: `normalized_conv2d` has one in it. Norms whose
// statistics are of one sample alone are in group_norm_op.h.
#pragma once

#include "brim/ops/batch_norm.h"
#include "brim/ops/op.h"

namespace brim {

class BatchNormOp final : public autograd::Op {
 public:
  // The inputs: these three, the mean and the variance where they are given (in evaluation the
  // running ones, in training those of the batch if they are known), last the residual.
  static constexpr int kX = 0, kWeight = 1, kBias = 2, kGivenMean = 3, kGivenVariance = 4;
  // The outputs; the last two where training was not given them.
  static constexpr int kY = 0, kMean = 1, kVariance = 2;

  BatchNormOp(const BatchNormOptions& options, Tensor running_mean, Tensor running_var)
      : attributes_{options.epsilon, options.activation, options.training},
        momentum_(options.momentum),
        has_residual_(options.residual.defined()),
        knows_batch_(options.training && options.mean.defined()),
        running_mean_(std::move(running_mean)),
        running_var_(std::move(running_var)) {}

  const char* name() const override { return "batch_norm"; }
  const kernel::BatchNormAttributes& attributes() const { return attributes_; }
  /// Apart from forward, which may run on another device than what effects write is on. Of the
  /// residual's dtype forward decides: autocast has its say in between.
  void validate(const Tensors& in) const;
  Tensors forward(const Tensors& in, const autograd::ForwardContext& context) const override;
  Tensors forward_again(const Tensors& in, const Tensors& known,
                        const autograd::ForwardContext& context) const override;
  std::vector<int> anchors() const override {
    return knows_batch_ ? std::vector<int>() : std::vector{kMean, kVariance};
  }
  bool is_one_pass() const override { return true; }
  bool is_rowwise() const override { return true; }
  void apply_effects(const Tensors& in, const Tensors& out) const override;
  std::vector<int> overwrites() const override {
    return has_residual_ ? std::vector{kX, residual_index()} : std::vector{kX};
  }
  autograd::Saves saves(const autograd::Needs& needs) const override;
  bool derives_output(int output) const override { return output == kY; }
  Tensors backward(autograd::BackwardCall& call) const override;

  double flops(std::span<const autograd::TensorInfo> in,
               std::span<const autograd::TensorInfo>) const override {
    // Statistics: subtract, add, multiply-add; then subtract, multiply-add, add, clamp.
    return (attributes_.training && !knows_batch_ ? 8.0 : 4.0) *
           static_cast<double>(numel(in[0].shape));
  }

 private:
  bool has_given() const { return knows_batch_ || !attributes_.training; }
  int residual_index() const { return has_given() ? kGivenVariance + 1 : kGivenMean; }
  bool activates() const { return attributes_.activation != Activation::none; }
  // The derivative of the activation comes from y where that spares saving the residual. The y of
  // hardswish does not tell what went into it: that is found again, from x and the residual.
  bool derives_from_y() const {
    return activates() && has_residual_ && attributes_.activation != Activation::hardswish;
  }
  bool derives_from_x() const { return activates() && !derives_from_y(); }

  // What y was made with, in training.
  template <class In, class Out>
  Tensor batch_mean(const In& in, const Out& out) const {
    return knows_batch_ ? contiguous(in[kGivenMean]) : out[kMean];
  }
  template <class In, class Out>
  Tensor batch_variance(const In& in, const Out& out) const {
    return knows_batch_ ? contiguous(in[kGivenVariance]) : out[kVariance];
  }
  void statistics(const Tensors& in, const Tensor& x, Tensor& mean, Tensor& variance) const;
  Tensor normalise(const Tensors& in, const Tensor& mean, const Tensor& variance,
                   const autograd::ForwardContext& context) const;

  kernel::BatchNormAttributes attributes_;
  double momentum_;
  bool has_residual_;
  bool knows_batch_;  // in training, its mean and variance are inputs
  // Written by effects, in training only.
  Tensor running_mean_, running_var_;
};

/// Throws what `batch_norm` throws about these.
void require_batch_norm(const BatchNormOptions& options, const Tensor& running_mean,
                        const Tensor& running_var);

}  // namespace brim
