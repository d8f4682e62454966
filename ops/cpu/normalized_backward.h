// The ways that `kernel::normalized_conv2d_backward` has on the CPU, one for each kind of
// convolution that normalises on the way (ops/cpu/normalized_conv2d.h).
#pragma once

#include "brim/core/launch.h"
#include "brim/ops/normalized_conv2d.h"

namespace brim::cpu {

int64_t normalized_depthwise_backward_scratch(const KernelCall& call,
                                              const kernel::NormalizedConv2dAttributes& attributes);
void normalized_depthwise_backward(const KernelCall& call,
                                   const kernel::NormalizedConv2dAttributes& attributes);

int64_t normalized_pointwise_backward_scratch(const KernelCall& call,
                                              const kernel::NormalizedConv2dAttributes& attributes);
void normalized_pointwise_backward(const KernelCall& call,
                                   const kernel::NormalizedConv2dAttributes& attributes);

int64_t normalized_winograd_backward_scratch(const KernelCall& call,
                                             const kernel::NormalizedConv2dAttributes& attributes);
void normalized_winograd_backward(const KernelCall& call,
                                  const kernel::NormalizedConv2dAttributes& attributes);

}  // namespace brim::cpu
