#include "brim/ops/layer_norm.h"

#include "brim/ops/group_norm_op.h"

namespace brim {
namespace {

class LayerNorm final : public GroupNormOp {
 public:
  LayerNorm(const Shape& normalized, double epsilon, Has has)
      : GroupNormOp({.groups = 1, .epsilon = epsilon}, has), normalized_(normalized) {}
  const char* name() const override { return "layer_norm"; }

 private:
  void validate(const Tensor& x) const override {
    int outer = x.dim() - normalized_.size();
    expect<ShapeError>(outer >= 0 && std::equal(normalized_.begin(), normalized_.end(),
                                                x.shape().begin() + std::max(outer, 0)),
                       name(), "expected an input whose last axes are {}, got {}", normalized_,
                       x.shape());
  }
  Shape seen_as(const Shape& x) const override {
    int64_t samples = 1;
    for (int axis = 0; axis < x.size() - normalized_.size(); ++axis) samples *= x[axis];
    return {samples, 1, numel(normalized_)};
  }
  Shape parameter_shape(const Shape&) const override { return normalized_; }

  Shape normalized_;
};

}  // namespace

Tensor layer_norm(Tensor x, const Shape& normalized_shape, Tensor weight, Tensor bias,
                  LayerNormOptions options, Where where) {
  expect<ShapeError>(!normalized_shape.empty(), "layer_norm",
                     "expected at least one axis to normalize over");
  expect<ValueError>(options.epsilon > 0, "layer_norm", "expected a positive epsilon, got {}",
                     options.epsilon);
  GroupNormOp::Has has{.weight = weight.defined(), .bias = bias.defined()};
  return autograd::apply_one(std::make_shared<LayerNorm>(normalized_shape, options.epsilon, has),
                             group_norm_inputs(std::move(x), std::move(weight), std::move(bias)),
                             where);
}

}  // namespace brim
