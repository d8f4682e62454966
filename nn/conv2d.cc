#include "brim/nn/conv2d.h"

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
  Conv2dOptions options = options_;
  if (filters_per_channel_ > 0) options.groups = weight.size(0) / filters_per_channel_;
  // Groups of several channels each that have one by now: a pruned layer has as many as channels.
  if (weight.size(3) == 1 && x.dim() == 4 && x.size(3) < options.groups) options.groups = x.size(3);
  return conv2d(std::move(x), weight, bias, options, where());
}

}  // namespace brim::nn
