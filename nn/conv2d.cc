#include "brim/nn/conv2d.h"

namespace brim::nn {

Conv2d::Conv2d(int64_t in, int64_t out, const ConvOptions& options)
    : options_{options.stride, options.padding, options.dilation, options.groups} {
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

Tensor Conv2d::forward(Tensor x) { return conv2d(std::move(x), weight, bias, options_, where()); }

}  // namespace brim::nn
