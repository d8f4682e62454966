// Gradient clipping: limits on what one update may do, for trainings whose gradients sometimes
// explode (recurrent networks, transformers, high rates). It is part of the optimizer's pass over
// the parameters: the gradients themselves stay as they are. Not a cure for gradients that are
// infinite or NaN: those are refused. Convolutional networks with batch norm seldom need it.
//
//   TrainStep step(model, optimizer, {.clip = {.norm = 1.0}});
#pragma once

#include <limits>

namespace brim::optim {

/// For each element, of the gradient after division by the loss scale: first its value is clamped,
/// then all are multiplied by the same factor, as PyTorch's clip_grad_value_ and clip_grad_norm_ do
/// when they are called in this order.
struct ClipOptions {
  static constexpr double kNone = std::numeric_limits<double>::infinity();
  /// The largest norm of the gradients of all parameters of the optimizer together, as one vector;
  /// above 0. The factor is
  /// min(1, norm / (norm of the gradients + 1e-6)): Pascanu et al., "On the difficulty of training
  /// recurrent neural networks", ICML 2013.
  double norm = kNone;
  double value = kNone;  ///< the largest magnitude of an element; above 0
};

}  // namespace brim::optim
