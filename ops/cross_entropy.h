// Cross entropy between logits and the classes that they should name, by number or as
// distributions: the loss of classifiers. Softmax and logarithm are part of it: give it raw scores.
// Classes are the last axis, not axis 1 as in PyTorch. No probabilities are stored: backward takes
// the exponentials again and writes dlogits in one pass. Where each class is a question of its own
// use `binary_cross_entropy_with_logits`.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"
#include "brim/ops/reduction.h"

namespace brim {

struct CrossEntropyOptions {
  /// [C]: what each class weighs, to balance rare ones. Of the logits' dtype, or float32 where that
  /// is lower. Gets no gradient. Or undefined: all weigh 1.
  Tensor weight = {};
  /// The target gives this share of its weight evenly to all classes (Szegedy et al., "Rethinking
  /// the Inception Architecture", CVPR 2016). In [0, 1].
  double label_smoothing = 0;
  /// Rows with this label count nowhere and get no gradient. Not for distributions.
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};

/// Per row i: -sum over c of w[c] q[c] log p[c], where p = softmax(logits[i]), w are the weights of
/// the classes and q is the target after smoothing by s: (1 - s) target + s / C. A label is the
/// distribution that is 1 there.
///
/// logits [..., C] of a floating dtype; the target is int64 [...], labels in [0, C), or [..., C],
/// a distribution in each row, of the logits' dtype, or float32 where that is lower (not checked to
/// sum to 1). The result has the logits' dtype and is a scalar, or [...] for `Reduction::none`,
/// with 0 where rows are ignored. The mean is, as PyTorch's, over the weights of the labels that
/// are not ignored, sum(loss) / sum(w[label]); over all rows alike for distributions. Over no rows
/// it is NaN. Saves the inputs and one number per row; a distribution gets a gradient too.
///
/// Throws `ShapeError`, `DtypeError` or `DeviceError` for tensors that do not go together,
/// `ValueError` for a smoothing out of range, and, on the CPU, for the first label outside [0, C).
Tensor cross_entropy(Tensor logits, Tensor target, CrossEntropyOptions options = {},
                     Where where = Where::current());

namespace kernel {
struct CrossEntropyAttributes {
  double label_smoothing = 0;
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};
/// in: logits, target (labels, or else distributions), weight or absent; out: loss, log of the sum
/// of exponentials (float64, one per row) or absent. Contiguous.
inline constexpr Kernel<CrossEntropyAttributes> cross_entropy{"cross_entropy"};
/// in: gradient of the loss, logits, target, weight or absent, log of the sum; out: dlogits,
/// dtarget. Each may be absent.
inline constexpr Kernel<CrossEntropyAttributes> cross_entropy_backward{"cross_entropy_backward"};
}  // namespace kernel

}  // namespace brim
