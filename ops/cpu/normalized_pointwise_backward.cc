// The gradients of a 1x1 convolution and of the batch norm before it, in two sweeps over x. Tiles
// of the convolution's data gradient go through the activation, and are summed for the norm's
// gradient, while they are in registers. Where the weight's gradient is small it is summed in the
// same sweep, of x normalised a block of pixels at a time. The second sweep makes dx.
#include <optional>

#include "brim/ops/cpu/input_norm.h"
#include "brim/ops/cpu/narrow_weight_sums.h"
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

class NormalizedPointwiseBackward : public NormalizedBackward {
 public:
  NormalizedPointwiseBackward(const KernelCall& call, const Attributes& attributes)
      : NormalizedBackward(call, attributes),
        of_data_(cursor_.take<char>(pointwise::backward_into_norm_scratch(shape_))) {
    if (wants_weight()) of_weight_.emplace(shape_, norm_, x(), dy(), cursor_);
  }

  void run() {
    set_norm();
    pointwise::backward_into_norm(shape_, norm_, x(), dy(), weight(), g(),
                                  of_weight_ ? &*of_weight_ : nullptr, sum_g_, sum_gx_, of_data_);
    if (of_weight_) of_weight_->finish(dweight());
    finish();
  }

 private:
  char* of_data_;
  std::optional<WeightOfUnits> of_weight_;
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
