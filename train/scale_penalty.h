// A penalty on the scales of batch norms: those of channels that matter little become small while
// the model trains, and pruning by `shrink::Criterion::batch_norm` then removes them. Liu et al.,
// "Learning Efficient Convolutional Networks through Network Slimming", ICCV 2017.
#pragma once

#include "brim/nn/module.h"

namespace brim {

/// `loss`, a scalar, plus `factor` times the sum of the magnitudes of the weights of all batch
/// norms that ask for a gradient; the loss itself for a factor of 0 and where there are none.
Tensor with_scale_penalty(Tensor loss, nn::Module& model, double factor);

}  // namespace brim
