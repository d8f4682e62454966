// Leaky rectified linear unit, x above 0 and a small multiple of x below, so that some gradient
// passes everywhere (Maas, Hannun and Ng, "Rectifier Nonlinearities Improve Neural Network Acoustic
// Models", 2013). `batch_norm` does not fuse it: where either will do, `relu` behind a norm is
// cheaper.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

struct LeakyReluOptions {
  double negative_slope = 0.01;
};

/// y = x where x > 0, negative_slope * x elsewhere; any shape, floating dtypes. NaN stays NaN. The
/// gradient at 0 is that below 0, as in PyTorch. Saves its output, so that the input need not be
/// kept; with a negative slope its input, as the sign of y tells nothing then.
Tensor leaky_relu(Tensor x, LeakyReluOptions options = {}, Where where = Where::current());

}  // namespace brim
