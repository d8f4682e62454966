#include "brim/nn/batch_norm2d.h"

#include <utility>

#include "brim/autograd/op.h"
#include "brim/nn/conv2d.h"
#include "brim/ops/activate.h"
#include "brim/ops/add.h"

namespace brim::nn {
namespace {

thread_local int unfused_scopes = 0;

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
  return (*this)(Conv2dWithStatistics{std::move(x), {}, {}}, std::move(fused), where);
}

Tensor BatchNorm2d::operator()(Conv2dWithStatistics x, Fused fused, Where where) {
  const bool fuses = fused.residual.defined() || fused.activation != Activation::none;
  if (is_bypassed() && !fuses) return (*this)(std::move(x.y), where);
  return call(where, [&] { return run(std::move(x), std::move(fused)); });
}

Tensor BatchNorm2d::operator()(Conv2dWithStatistics x, Where where) {
  return (*this)(std::move(x), Fused(), where);
}

Tensor BatchNorm2d::forward(Tensor x) { return run({std::move(x), {}, {}}, {}); }

void BatchNorm2d::fold_into(Conv2d& convolution) {
  convolution_ = &convolution;
  weight = bias = running_mean = running_var = Tensor();
  mark_as_folded();
}

Tensor BatchNorm2d::run(Conv2dWithStatistics x, Fused fused) {
  if (unfused_scopes > 0 && (fused.residual.defined() || fused.activation != Activation::none))
    return run_unfused(std::move(x), std::move(fused));
  if (is_folded())
    return convolution_->run_folded(std::move(x.y), std::move(fused.residual), fused.activation);
  BatchNormOptions options = options_for(std::move(fused), x);
  return batch_norm(std::move(x.y), weight, bias, running_mean, running_var, std::move(options),
                    where());
}

BatchNormOptions BatchNorm2d::options_for(Fused fused, const Conv2dWithStatistics& x) const {
  return {.residual = std::move(fused.residual),
          .activation = fused.activation,
          .training = training(),
          .momentum = options_.momentum,
          .epsilon = options_.epsilon,
          .mean = x.mean,
          .variance = x.variance};
}

PendingNorm BatchNorm2d::pending(Conv2dWithStatistics x, Activation activation, Where where) {
  return {std::move(x), *this, activation, where};
}

std::optional<BatchNormArguments> BatchNorm2d::arguments_for(const PendingNorm& pending) {
  if (unfused_scopes > 0 || is_bypassed() || is_folded() || !training() ||
      !pending.x_.mean.defined() || !autograd::grad_enabled())
    return {};
  return call(pending.where_, [&] {
    return BatchNormArguments{
        weight, bias, running_mean, running_var,
        options_for({.residual = {}, .activation = pending.activation_}, pending.x_)};
  });
}

Tensor PendingNorm::apply() && {
  if (norm_ == nullptr) return std::move(x_.y);
  const autograd::ModuleScope scope(module_);
  return (*norm_)(std::move(x_), {.residual = {}, .activation = activation_}, where_);
}

Tensor BatchNorm2d::run_unfused(Conv2dWithStatistics x, Fused fused) {
  Tensor y = run(std::move(x), {});
  if (fused.residual.defined()) y = add(std::move(y), std::move(fused.residual), where());
  return activate(std::move(y), fused.activation, where());
}

}  // namespace brim::nn
