// Cross entropy between logits and class numbers: the loss of classifiers,
// -log(softmax(logits)[label]). Softmax and logarithm are part of it: give it raw scores. Classes
// are the last axis, not axis 1 as in PyTorch. No probabilities are stored: backward takes the
// exponentials again and writes dlogits in one pass. For distributions as targets compose
// `log_softmax`, `mul` and `sum`.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"
#include "brim/ops/reduction.h"

namespace brim {

struct CrossEntropyOptions {
  /// The target gives this share of its weight evenly to all classes (Szegedy et al., "Rethinking
  /// the Inception Architecture", CVPR 2016). In [0, 1].
  double label_smoothing = 0;
  /// Rows with this label count nowhere and get no gradient.
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};

/// Per row i with label t: -(1 - s) log p[t] - s / C * sum over c of log p[c], where
/// p = softmax(logits[i]) and s is the label smoothing; then mean (over the rows that are not
/// ignored), sum or none of them.
///
/// logits [..., C] of a floating dtype, labels int64 [...]; the result has the logits' dtype and is
/// a scalar, or [...] for `Reduction::none`, with 0 where rows are ignored. The mean over no rows,
/// or of ignored ones alone, is NaN. Saves logits and labels and one number per row.
///
/// Throws `ShapeError` or `DtypeError` for tensors that do not go together, `ValueError` for a
/// smoothing out of range, and, on the CPU, for the first label outside [0, C).
Tensor cross_entropy(Tensor logits, Tensor labels, CrossEntropyOptions options = {},
                     Where where = Where::current());

namespace kernel {
/// in: logits, labels; out: loss, log of the sum of exponentials (float64, one per row).
/// Contiguous.
inline constexpr Kernel<CrossEntropyOptions> cross_entropy{"cross_entropy"};
/// in: gradient of the loss, logits, labels, log of the sum; out: dlogits.
inline constexpr Kernel<CrossEntropyOptions> cross_entropy_backward{"cross_entropy_backward"};
}  // namespace kernel

}  // namespace brim
