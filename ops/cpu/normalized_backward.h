// The ways that `kernel::normalized_conv2d_backward` has on the CPU, one for each kind of
// convolution that normalises on the way (ops/cpu/normalized_conv2d.h).
#pragma once

#include "brim/core/launch.h"
#include "brim/ops/cpu/input_norm.h"
#include "brim/ops/cpu/norm_backward.h"
#include "brim/ops/normalized_conv2d.h"

namespace brim::cpu {

/// A call of it, of a way that keeps g in the place of dx: its operands, room for what the norm
/// needs, and its last sweep.
class NormalizedBackward {
 public:
  int64_t scratch_bytes() const { return cursor_.used(); }

 protected:
  NormalizedBackward(const KernelCall& call, const kernel::NormalizedConv2dAttributes& attributes)
      : call_(call),
        epsilon_(attributes.norm.epsilon),
        shape_(call.in[0].shape, call.in[6].shape, call.in[5].shape, attributes.window),
        rows_(call.in[0]),
        cursor_(call.scratch),
        norm_(call.in[0], attributes.norm.activation, cursor_),
        by_(cursor_, rows_),
        sum_g_(cursor_.take<double>(shape_.c)),
        sum_gx_(cursor_.take<double>(shape_.c)) {}

  /// Before the norm is applied.
  void set_norm() { norm_.set(call_.in[1], call_.in[2], call_.in[3], call_.in[4], epsilon_); }
  /// From g and its sums: dx, and the gradients of the norm's weight and bias.
  void finish() const {
    finish_norm_sums(rows_, sum_g_, sum_gx_, {call_.in[1], call_.in[3], call_.in[4], epsilon_},
                     call_.out[1], call_.out[2], by_);
    finish_norm_gradient(rows_, norm_.coefficients(), by_, x(), g());
  }

  const float* x() const { return call_.in[0].as<float>(); }
  const float* dy() const { return call_.in[5].as<float>(); }
  const float* weight() const { return call_.in[6].as<float>(); }
  float* g() const { return call_.out[0].as<float>(); }
  bool wants_weight() const { return call_.out[3].present; }
  float* dweight() const { return call_.out[3].as<float>(); }

  const KernelCall& call_;
  double epsilon_;
  ConvShape shape_;
  ChannelRows rows_;
  ScratchCursor cursor_;
  InputNorm norm_;
  GradientCoefficients<float> by_;
  double *sum_g_, *sum_gx_;  ///< of g, and of g * (x - mean)
};

int64_t normalized_depthwise_backward_scratch(const KernelCall& call,
                                              const kernel::NormalizedConv2dAttributes& attributes);
void normalized_depthwise_backward(const KernelCall& call,
                                   const kernel::NormalizedConv2dAttributes& attributes);

int64_t normalized_pointwise_backward_scratch(const KernelCall& call,
                                              const kernel::NormalizedConv2dAttributes& attributes);
void normalized_pointwise_backward(const KernelCall& call,
                                   const kernel::NormalizedConv2dAttributes& attributes);

int64_t normalized_winograd_backward_scratch(const KernelCall& call,
                                             const kernel::NormalizedConv2dAttributes& attributes);
void normalized_winograd_backward(const KernelCall& call,
                                  const kernel::NormalizedConv2dAttributes& attributes);

}  // namespace brim::cpu
