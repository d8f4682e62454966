// The `Op` of norms whose statistics are of one sample alone, for authors of ops: `group_norm` and
// `layer_norm` say how they see their input, the rest is here. Norms over the batch are another
// matter: see batch_norm.cc.
#pragma once

#include "brim/ops/group_norm.h"
#include "brim/ops/op.h"

namespace brim {

class GroupNormOp : public autograd::Op {
 public:
  /// Which of weight and bias there are; they follow x as inputs.
  struct Has {
    bool weight = false, bias = false;
  };
  GroupNormOp(const kernel::GroupNormAttributes& attributes, Has has)
      : attributes_(attributes), has_(has) {}
  Tensors forward(const Tensors& in, const autograd::ForwardContext& context) const final;
  autograd::Saves saves(const autograd::Needs& needs) const final;
  Tensors backward(autograd::BackwardCall& call) const final;
  double flops(std::span<const autograd::TensorInfo> in,
               std::span<const autograd::TensorInfo>) const final {
    // Mean: add; variance: subtract, multiply-add; then subtract and two multiply-adds.
    return 9.0 * static_cast<double>(numel(in[0].shape));
  }

 protected:
  /// Throws `ShapeError` unless the op can take x.
  virtual void validate(const Tensor& x) const = 0;
  /// x as samples, pixels and channels.
  virtual Shape seen_as(const Shape& x) const = 0;
  /// Of weight and bias.
  virtual Shape parameter_shape(const Shape& x) const = 0;

  const kernel::GroupNormAttributes& attributes() const { return attributes_; }

 private:
  int bias_index() const { return has_.weight ? 2 : 1; }

  kernel::GroupNormAttributes attributes_;
  Has has_;
};

/// {x, weight, bias} without what is undefined.
Tensors group_norm_inputs(Tensor x, Tensor weight, Tensor bias);

}  // namespace brim
