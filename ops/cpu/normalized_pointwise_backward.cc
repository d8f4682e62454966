// The gradients of a 1x1 convolution and of the batch norm before it. Tiles of the convolution's
// data gradient go through the activation, and are summed for the norm's gradient, while they are
// in registers. Where the weight's gradient is small it is summed of blocks of x that are
// normalised on the way.
#include <algorithm>

#include "brim/ops/cpu/input_norm.h"
#include "brim/ops/cpu/narrow_weight.h"
#include "brim/ops/cpu/norm_backward.h"
#include "brim/ops/cpu/normalized_backward.h"
#include "brim/ops/cpu/pointwise.h"

namespace brim::cpu {
namespace {

using Attributes = kernel::NormalizedConv2dAttributes;

class NormalizedPointwiseBackward {
 public:
  NormalizedPointwiseBackward(const KernelCall& call, const Attributes& attributes)
      : call_(call),
        epsilon_(attributes.norm.epsilon),
        shape_(call.in[0].shape, call.in[6].shape, call.in[5].shape, attributes.window),
        rows_(call.in[0]),
        cursor_(call.scratch),
        norm_(call.in[0], attributes.norm.activation, cursor_),
        by_(cursor_, rows_),
        sum_g_(cursor_.take<double>(shape_.c)),
        sum_gx_(cursor_.take<double>(shape_.c)),
        rest_(cursor_.take<char>(rest_bytes())) {}

  int64_t scratch_bytes() const { return cursor_.used(); }

  void run() {
    const float *x = call_.in[0].as<float>(), *dy = call_.in[5].as<float>();
    float* dx = call_.out[0].as<float>();
    norm_.set(call_.in[1], call_.in[2], call_.in[3], call_.in[4], epsilon_);
    if (call_.out[3].present)
      normalized_narrow_weight(shape_, norm_, x, dy, call_.out[3].as<float>(), rest_);
    pointwise::backward_into_norm(shape_, norm_, x, dy, call_.in[6].as<float>(), dx, sum_g_,
                                  sum_gx_, rest_);
    finish_norm_sums(rows_, sum_g_, sum_gx_, {call_.in[1], call_.in[3], call_.in[4], epsilon_},
                     call_.out[1], call_.out[2], by_);
    finish_norm_gradient(rows_, norm_.coefficients(), by_, x, dx);
  }

 private:
  /// Of the two kernels, one after the other.
  int64_t rest_bytes() const {
    const int64_t data = pointwise::backward_into_norm_scratch(shape_);
    if (!call_.out[3].present) return data;
    return std::max(data, normalized_narrow_weight_scratch(shape_, norm_));
  }

  const KernelCall& call_;
  double epsilon_;
  ConvShape shape_;
  ChannelRows rows_;
  ScratchCursor cursor_;
  InputNorm norm_;
  GradientCoefficients<float> by_;
  double *sum_g_, *sum_gx_;
  char* rest_;
};

}  // namespace

int64_t normalized_pointwise_backward_scratch(const KernelCall& call,
                                              const Attributes& attributes) {
  return NormalizedPointwiseBackward(call, attributes).scratch_bytes();
}

void normalized_pointwise_backward(const KernelCall& call, const Attributes& attributes) {
  NormalizedPointwiseBackward(call, attributes).run();
}

}  // namespace brim::cpu
