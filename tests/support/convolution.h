// A convolution as large as a real model's, with its gradients.
#pragma once

#include "brim/autograd/backward.h"
#include "brim/core/tensor.h"
#include "brim/ops/conv2d.h"

namespace brim::testing {

struct ConvolutionLayer {
  Shape x, weight;
  Conv2dOptions options;
};

/// y, dx and dweight for given inputs and output gradient.
struct ConvolutionResults {
  Tensor y, dx, dweight;
};
inline ConvolutionResults differentiate(const Tensor& x0, const Tensor& weight0, const Tensor& dy,
                                        const Conv2dOptions& options) {
  Tensor x = clone(x0), weight = clone(weight0);
  x.set_requires_grad();
  weight.set_requires_grad();
  Tensor y = conv2d(x, weight, Tensor(), options);
  backward(y, {.grad = dy});
  return {y, x.grad(), weight.grad()};
}

}  // namespace brim::testing
