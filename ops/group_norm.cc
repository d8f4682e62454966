#include "brim/ops/group_norm.h"

#include "brim/ops/group_norm_op.h"

namespace brim {
namespace {

class GroupNorm final : public GroupNormOp {
 public:
  using GroupNormOp::GroupNormOp;
  const char* name() const override { return "group_norm"; }

 private:
  void validate(const Tensor& x) const override {
    expect<ShapeError>(x.dim() >= 2, name(), "expected samples with channels [N,...,C], got {}",
                       x.shape());
    expect<ShapeError>(x.size(-1) % attributes().groups == 0, name(),
                       "expected channels that {} groups divide, got input {}", attributes().groups,
                       x.shape());
  }
  Shape seen_as(const Shape& x) const override {
    int64_t pixels = 1;
    for (int axis = 1; axis + 1 < x.size(); ++axis) pixels *= x[axis];
    return {x[0], pixels, x.back()};
  }
  Shape parameter_shape(const Shape& x) const override { return {x.back()}; }
};

}  // namespace

Tensor group_norm(Tensor x, int64_t groups, Tensor weight, Tensor bias, GroupNormOptions options,
                  Where where) {
  expect<ValueError>(groups >= 1, "group_norm", "expected at least one group, got {}", groups);
  expect<ValueError>(options.epsilon > 0, "group_norm", "expected a positive epsilon, got {}",
                     options.epsilon);
  kernel::GroupNormAttributes attributes{.groups = groups, .epsilon = options.epsilon};
  GroupNormOp::Has has{.weight = weight.defined(), .bias = bias.defined()};
  return autograd::apply_one(std::make_shared<GroupNorm>(attributes, has),
                             group_norm_inputs(std::move(x), std::move(weight), std::move(bias)),
                             where);
}

}  // namespace brim
