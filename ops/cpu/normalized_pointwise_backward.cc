// The gradients of a 1x1 convolution and of the batch norm before it, in two sweeps over x. Tiles
// of the convolution's data gradient go through the activation, and are summed for the norm's
// gradient, while they are in registers. Where the weight's gradient is small it is summed in the
// same sweep, of x normalised a block of pixels at a time. The second sweep makes dx.
#include <algorithm>
#include <optional>

#include "brim/ops/cpu/input_norm.h"
#include "brim/ops/cpu/narrow_weight_sums.h"
#include "brim/ops/cpu/norm_backward.h"
#include "brim/ops/cpu/normalized_backward.h"
#include "brim/ops/cpu/pointwise.h"

namespace brim::cpu {
namespace {

using Attributes = kernel::NormalizedConv2dAttributes;

/// The weight's gradient, of units of pixels that the data gradient is about to be made of.
class WeightOfUnits final : public pointwise::UnitVisitor {
 public:
  WeightOfUnits(const ConvShape& shape, const InputNorm& norm, const float* x, const float* dy,
                ScratchCursor& scratch)
      : sums_(shape, &norm, kMostPieces, scratch), x_(x), dy_(dy) {}

  int64_t pieces() const override { return sums_.pieces(); }
  void begin(int64_t piece) override { sums_.clear(piece); }
  void visit(int64_t thread, int64_t piece, int64_t begin, int64_t end) override {
    sums_.add(thread, piece, x_, dy_, begin, end);
  }
  void finish(float* dweight) const { sums_.finish(dweight); }

 private:
  static constexpr int64_t kMostPieces = 32;  // shares of threads

  narrow::NarrowWeight<float, narrow::OneByOne<float>> sums_;
  const float *x_, *dy_;
};

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
        of_data_(cursor_.take<char>(pointwise::backward_into_norm_scratch(shape_))) {
    if (call.out[3].present) weight_.emplace(shape_, norm_, x(), dy(), cursor_);
  }

  int64_t scratch_bytes() const { return cursor_.used(); }

  void run() {
    float* dx = call_.out[0].as<float>();
    norm_.set(call_.in[1], call_.in[2], call_.in[3], call_.in[4], epsilon_);
    pointwise::backward_into_norm(shape_, norm_, x(), dy(), call_.in[6].as<float>(), dx,
                                  weight_ ? &*weight_ : nullptr, sum_g_, sum_gx_, of_data_);
    if (weight_) weight_->finish(call_.out[3].as<float>());
    finish_norm_sums(rows_, sum_g_, sum_gx_, {call_.in[1], call_.in[3], call_.in[4], epsilon_},
                     call_.out[1], call_.out[2], by_);
    finish_norm_gradient(rows_, norm_.coefficients(), by_, x(), dx);
  }

 private:
  const float* x() const { return call_.in[0].as<float>(); }
  const float* dy() const { return call_.in[5].as<float>(); }

  const KernelCall& call_;
  double epsilon_;
  ConvShape shape_;
  ChannelRows rows_;
  ScratchCursor cursor_;
  InputNorm norm_;
  GradientCoefficients<float> by_;
  double *sum_g_, *sum_gx_;
  char* of_data_;
  std::optional<WeightOfUnits> weight_;
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
