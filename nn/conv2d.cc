#include "brim/nn/conv2d.h"

#include <utility>

#include "brim/nn/creation.h"

namespace brim::nn {

Conv2d::Conv2d(int64_t in, int64_t out, const ConvOptions& options)
    : options_{options.stride, options.padding, options.dilation, options.groups},
      filters_per_channel_(options.groups > 1 && options.groups == in ? out / in : 0) {
  expect<ValueError>(in > 0 && out > 0 && options.groups > 0, "conv2d",
                     "expected at least one channel and group, got {} to {} in {} groups", in, out,
                     options.groups);
  expect<ValueError>(in % options.groups == 0 && out % options.groups == 0, "conv2d",
                     "expected channels that {} groups divide, got {} to {}", options.groups, in,
                     out);
  register_parameter("weight", weight,
                     {out, options.kernel.h, options.kernel.w, in / options.groups},
                     options.weight_init);
  if (options.bias) register_parameter("bias", bias, {out}, options.bias_init);
}

Tensor Conv2d::forward(Tensor x) {
  if (is_folded()) {
    handed_on_ = x.body();
    return x;
  }
  const Conv2dOptions options = options_for(x);
  return conv2d(std::move(x), weight, bias, options, where());
}

Conv2dWithStatistics Conv2d::for_norm(Tensor x, Where where) {
  if (is_bypassed() || !training() || is_folded()) return {(*this)(std::move(x), where), {}, {}};
  return call(where, [&] {
    const Conv2dOptions options = options_for(x);
    return conv2d_with_statistics(std::move(x), weight, bias, options, where);
  });
}

Conv2dWithStatistics Conv2d::for_norm(PendingNorm pending, Where where) {
  Tensor& x = pending.x_.y;
  std::optional<BatchNormArguments> norm;
  if (pending.norm_ != nullptr && !is_bypassed() && training() && !is_folded())
    norm = pending.norm_->arguments_for(pending);
  if (!norm || !normalizes_on_the_way(x, *norm, weight, options_for(x)))
    return for_norm(std::move(pending).apply(), where);
  return call(where, [&] {
    const Conv2dOptions options = options_for(x);
    return normalized_conv2d(std::move(x), std::move(*norm), weight, bias, options, where);
  });
}

Conv2dOptions Conv2d::options_for(const Tensor& x) const {
  Conv2dOptions options = options_;
  if (filters_per_channel_ > 0) options.groups = weight.size(0) / filters_per_channel_;
  // Groups of several channels each that have one by now: a pruned layer has as many as channels.
  if (weight.size(3) == 1 && x.dim() == 4 && x.size(3) < options.groups) options.groups = x.size(3);
  return options;
}

void Conv2d::fold(Tensor folded_weight, Tensor folded_bias) {
  check(!is_folded(), "a convolution has one norm in it");
  if (!bias.defined()) {
    CreationScope like({.dtype = folded_bias.dtype(), .device = folded_bias.device()});
    register_parameter("bias", bias, folded_bias.shape(), init::constant(0));
  }
  weight = std::move(folded_weight);
  bias = std::move(folded_bias);
  mark_as_folded();
}

Tensor Conv2d::run_folded(Tensor x, Tensor residual, Activation activation) {
  expect<ValueError>(x.body() == std::exchange(handed_on_, nullptr), "conv2d",
                     "expected the norm folded into '{}' to be called on its result", name());
  const Conv2dOptions options = options_for(x);
  return fused_conv2d(std::move(x), weight, bias,
                      {.window = options,
                       .residual = std::move(residual),
                       .activation = activation,
                       .packed = &packed_,
                       .composes = true},
                      where());
}

}  // namespace brim::nn
