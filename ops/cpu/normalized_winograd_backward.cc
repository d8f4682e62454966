// The gradients of a 3x3 convolution and of the batch norm before it, by Winograd's method: that of
// the weight, of x normalised a tile at a time, then the data gradient, of which tiles go through
// the activation, and are summed for the norm's gradient, while they are in registers. A last sweep
// makes dx.
#include <algorithm>

#include "brim/ops/cpu/normalized_backward.h"
#include "brim/ops/cpu/winograd.h"

namespace brim::cpu {
namespace {

using Attributes = kernel::NormalizedConv2dAttributes;

class NormalizedWinogradBackward : public NormalizedBackward {
 public:
  NormalizedWinogradBackward(const KernelCall& call, const Attributes& attributes)
      : NormalizedBackward(call, attributes),
        scratch_(cursor_.take<char>(
            std::max(winograd::backward_into_norm_scratch(shape_),
                     wants_weight() ? winograd::backward_weight_scratch(shape_) : 0))) {}

  void run() {
    set_norm();
    if (wants_weight()) winograd::backward_weight(shape_, x(), dy(), dweight(), scratch_, &norm_);
    winograd::backward_into_norm(shape_, norm_, x(), dy(), weight(), g(), sum_g_, sum_gx_,
                                 scratch_);
    finish();
  }

 private:
  char* scratch_;  ///< of one gradient after the other
};

}  // namespace

int64_t normalized_winograd_backward_scratch(const KernelCall& call, const Attributes& attributes) {
  return NormalizedWinogradBackward(call, attributes).scratch_bytes();
}

void normalized_winograd_backward(const KernelCall& call, const Attributes& attributes) {
  NormalizedWinogradBackward(call, attributes).run();
}

}  // namespace brim::cpu
