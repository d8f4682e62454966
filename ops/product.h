// What ops share that are linear in each of two inputs: a convolution in image and weight, a matrix
// product, an elementwise one. For authors of ops.
#pragma once

#include "brim/ops/op.h"

namespace brim {

/// Inputs 0 and 1, each only where the other's gradient is wanted.
inline autograd::Saves saves_of_product(const autograd::Needs& needs) {
  autograd::Saves saves;
  if (needs[1]) saves.inputs.push_back(0);
  if (needs[0]) saves.inputs.push_back(1);
  return saves;
}

/// Throws `ShapeError` unless `bias` is [channels], and what `require_same_kind` throws unless it
/// is of the weight's dtype and device.
inline void require_bias(const char* tag, const Tensor& weight, const Tensor& bias,
                         int64_t channels) {
  require_same_kind(tag, weight, bias);
  expect<ShapeError>(bias.shape() == Shape{channels}, tag,
                     "expected bias of shape [{}] to match weight {}, got {}", channels,
                     weight.shape(), bias.shape());
}

}  // namespace brim
