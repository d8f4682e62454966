#include "brim/nn/batch_norm2d.h"

#include <utility>

#include "brim/ops/add.h"
#include "brim/ops/hardswish.h"
#include "brim/ops/relu.h"
#include "brim/ops/relu6.h"

namespace brim::nn {
namespace {

thread_local int unfused_scopes = 0;

Tensor activate(Tensor x, Activation activation, Where where) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return relu(std::move(x), where);
    case Activation::relu6:
      return relu6(std::move(x), where);
    case Activation::hardswish:
      return hardswish(std::move(x), where);
  }
  return x;
}

}  // namespace

UnfusedScope::UnfusedScope() { ++unfused_scopes; }
UnfusedScope::~UnfusedScope() { --unfused_scopes; }

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
  if (unfused_scopes > 0 && (fused.residual.defined() || fused.activation != Activation::none))
    return run_unfused(std::move(x), std::move(fused));
  return batch_norm(std::move(x), weight, bias, running_mean, running_var,
                    {.residual = std::move(fused.residual),
                     .activation = fused.activation,
                     .training = training(),
                     .momentum = options_.momentum,
                     .epsilon = options_.epsilon},
                    where());
}

Tensor BatchNorm2d::run_unfused(Tensor x, Fused fused) {
  Tensor y = run(std::move(x), {});
  if (fused.residual.defined()) y = add(std::move(y), std::move(fused.residual), where());
  return activate(std::move(y), fused.activation, where());
}

}  // namespace brim::nn
