#include "brim/nn/group_norm.h"

namespace brim::nn {

GroupNorm::GroupNorm(int64_t groups, int64_t channels, const GroupNormOptions& options)
    : groups_(groups), options_(options) {
  expect<ValueError>(groups > 0 && channels > 0 && channels % groups == 0, "group_norm",
                     "expected channels that at least one group divides, got {} in {} groups",
                     channels, groups);
  if (!options.affine) return;
  register_parameter("weight", weight, {channels}, init::constant(1));
  register_parameter("bias", bias, {channels}, init::constant(0));
}

Tensor GroupNorm::forward(Tensor x) {
  return group_norm(std::move(x), groups_, weight, bias, {.epsilon = options_.epsilon}, where());
}

}  // namespace brim::nn
