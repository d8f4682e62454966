#include "brim/nn/conv_transpose2d.h"

#include <cmath>

namespace brim::nn {

ConvTranspose2d::ConvTranspose2d(int64_t in, int64_t out, const ConvTransposeOptions& options)
    : options_{options.stride, options.padding, options.output_padding, options.dilation,
               options.groups},
      is_depthwise_(options.groups > 1 && options.groups == in) {
  expect<ValueError>(in > 0 && out > 0 && options.groups > 0, "conv_transpose2d",
                     "expected at least one channel and group, got {} to {} in {} groups", in, out,
                     options.groups);
  expect<ValueError>(in % options.groups == 0 && out % options.groups == 0, "conv_transpose2d",
                     "expected channels that {} groups divide, got {} to {}", options.groups, in,
                     out);
  Shape shape{in, options.kernel.h, options.kernel.w, out / options.groups};
  Init torch = init::uniform(1 / std::sqrt(static_cast<double>(fan_of(shape, Fan::in))));
  register_parameter("weight", weight, shape, options.weight_init ? options.weight_init : torch);
  if (options.bias)
    register_parameter("bias", bias, {out}, options.bias_init ? options.bias_init : torch);
}

Tensor ConvTranspose2d::forward(Tensor x) {
  ConvTranspose2dOptions options = options_;
  // Groups of several channels each that have one by now: a pruned layer has as many as channels.
  const bool has_become = weight.size(3) == 1 && weight.size(0) < options.groups;
  if (is_depthwise_ || has_become) options.groups = weight.size(0);
  return conv_transpose2d(std::move(x), weight, bias, options, where());
}

}  // namespace brim::nn
