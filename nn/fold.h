// Batch norms folded into the convolutions before them, for inference: with the running statistics
// a norm is one factor and one summand a channel, which the weight and bias of a convolution can
// have in them (Jacob et al., "Quantization and Training of Neural Networks for Efficient
// Integer-Arithmetic-Only Inference", CVPR 2018, section 3.2). What the norm fused, residual and
// activation, is then done while the convolution writes its result, and its weight is kept in the
// order that the kernel reads. See docs/batch_norm.md. For a model that is trained on, or saved, it
// is not: fold what was loaded.
#pragma once

#include <string>
#include <vector>

#include "brim/nn/module.h"

namespace brim::nn {

struct FoldReport {
  std::vector<std::string> folded;  ///< norms that are part of a convolution now
  std::vector<std::string> left;    ///< norms that stay as they are
};

/// Folds each `BatchNorm2d` whose input is the result of a `Conv2d` that nothing else reads, each
/// of the two being called once in a forward pass, with tensors that no other module shares. Which
/// norm follows which convolution is found from a pass over images of shape `input`, [N,H,W,C], on
/// the meta device: later passes may have other sizes, but must call the same modules.
///
/// For a channel of the convolution, computed in double and rounded once:
///   weight' = weight * s, bias' = norm.bias + (bias - running_mean) * s,
///   s = norm.weight / sqrt(running_var + epsilon).
///
/// The model computes the same up to rounding from then on, but that relu may take NaN for 0. The
/// convolution has the new weight and bias, tensors that want no gradient; the norm has none left.
/// A module's code between the two sees the input of the convolution instead of its result, so it
/// must hand it to the norm unread. To train such a model, to save its weights or to load others is
/// an error. Twice is as once.
///
/// Throws `ValueError` unless the model is in eval mode with all its values, and what the forward
/// pass throws about shapes. Nothing is changed then.
FoldReport fold_batch_norms(Module& model, const Shape& input = {1, 224, 224, 3});

}  // namespace brim::nn
