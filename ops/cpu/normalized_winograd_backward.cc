// The gradients of a 3x3 convolution and of the batch norm before it, by Winograd's method: that of
// the weight, of x normalised a tile at a time, then the data gradient, of which tiles go through
// the activation, and are summed for the norm's gradient, while they are in registers. A last sweep
// makes dx.
#include <algorithm>

#include "brim/ops/cpu/input_norm.h"
#include "brim/ops/cpu/norm_backward.h"
#include "brim/ops/cpu/normalized_backward.h"
#include "brim/ops/cpu/winograd.h"

namespace brim::cpu {
namespace {

using Attributes = kernel::NormalizedConv2dAttributes;

class NormalizedWinogradBackward {
 public:
  NormalizedWinogradBackward(const KernelCall& call, const Attributes& attributes)
      : call_(call),
        epsilon_(attributes.norm.epsilon),
        shape_(call.in[0].shape, call.in[6].shape, call.in[5].shape, attributes.window),
        rows_(call.in[0]),
        cursor_(call.scratch),
        norm_(call.in[0], attributes.norm.activation, cursor_),
        by_(cursor_, rows_),
        sum_g_(cursor_.take<double>(shape_.c)),
        sum_gx_(cursor_.take<double>(shape_.c)),
        of_gradients_(cursor_.take<char>(
            std::max(winograd::backward_into_norm_scratch(shape_),
                     call.out[3].present ? winograd::backward_weight_scratch(shape_) : 0))) {}

  int64_t scratch_bytes() const { return cursor_.used(); }

  void run() {
    const float *x = call_.in[0].as<float>(), *dy = call_.in[5].as<float>();
    float* dx = call_.out[0].as<float>();
    norm_.set(call_.in[1], call_.in[2], call_.in[3], call_.in[4], epsilon_);
    if (call_.out[3].present)
      winograd::backward_weight(shape_, x, dy, call_.out[3].as<float>(), of_gradients_, &norm_);
    winograd::backward_into_norm(shape_, norm_, x, dy, call_.in[6].as<float>(), dx, sum_g_, sum_gx_,
                                 of_gradients_);
    finish_norm_sums(rows_, sum_g_, sum_gx_, {call_.in[1], call_.in[3], call_.in[4], epsilon_},
                     call_.out[1], call_.out[2], by_);
    finish_norm_gradient(rows_, norm_.coefficients(), by_, x, dx);
  }

 private:
  const KernelCall& call_;
  double epsilon_;
  ConvShape shape_;
  ChannelRows rows_;
  ScratchCursor cursor_;
  InputNorm norm_;
  GradientCoefficients<float> by_;
  double *sum_g_, *sum_gx_;
  char* of_gradients_;
};

}  // namespace

int64_t normalized_winograd_backward_scratch(const KernelCall& call, const Attributes& attributes) {
  return NormalizedWinogradBackward(call, attributes).scratch_bytes();
}

void normalized_winograd_backward(const KernelCall& call, const Attributes& attributes) {
  NormalizedWinogradBackward(call, attributes).run();
}

}  // namespace brim::cpu
