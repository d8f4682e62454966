#include "brim/nn/batch_norm2d.h"

namespace brim::nn {

BatchNorm2d::BatchNorm2d(int64_t channels, const BatchNorm2dOptions& options) : options_(options) {
  expect<ValueError>(channels > 0, "batch_norm", "expected at least one channel, got {}", channels);
  register_parameter("weight", weight, {channels}, init::constant(options.weight));
  register_parameter("bias", bias, {channels}, init::constant(0));
  register_buffer("running_mean", running_mean, {channels}, 0);
  register_buffer("running_var", running_var, {channels}, 1);
}

Tensor BatchNorm2d::operator()(Tensor x, Fused fused, Where where) {
  return call(where, [&] { return run(std::move(x), std::move(fused)); });
}

Tensor BatchNorm2d::forward(Tensor x) { return run(std::move(x), {}); }

Tensor BatchNorm2d::run(Tensor x, Fused fused) {
  return batch_norm(std::move(x), weight, bias, running_mean, running_var,
                    {.residual = std::move(fused.residual),
                     .activation = fused.activation,
                     .training = training(),
                     .momentum = options_.momentum,
                     .epsilon = options_.epsilon},
                    where());
}

}  // namespace brim::nn
