// What becomes of an update that was recorded (train/step_graph.h), judged on the device by the
// squares of its gradients: whether it takes place, and how far it is clipped. Nobody waits for the
// host then, which judges any other update between `prepare` and `commit` (optimizer.cc): the same
// sums in the same order, so the same bits. Of an update in pieces each is judged by itself.
#pragma once

#include <limits>

#include "brim/base/host_device.h"
#include "brim/core/launch.h"

namespace brim::optim {

/// What gradients of this norm are multiplied by: PyTorch's, with its 1e-6. NaN for a norm that is
/// NaN, 1 without a limit.
BRIM_HOST_DEVICE inline double clip_factor(double norm, double limit) {
  if (limit == std::numeric_limits<double>::infinity()) return 1;
  const double factor = limit / (norm + 1e-6);
  return factor > 1 ? 1 : factor;
}

/// Places in what is left behind of an update. `judge_update` leaves the first two, `judge_piece`
/// the last: how many parameters were updated, of an update in pieces.
enum Verdict { kVerdictApplied, kVerdictNorm, kVerdictPieces, kVerdictNumbers };

/// What `judge_piece` looks at.
enum class PieceJudged {
  loss,      ///< the loss, before the first piece
  gradient,  ///< the sum of the squares of a gradient, before the update from it
  updated    ///< the same, after it
};

}  // namespace brim::optim

namespace brim::kernel {

/// in: the sums of the squares of all gradients, 0 for one that is not there, and the loss; out:
/// the `StepScalars`, of which the factor of the clip and `kApplied` are set, the numbers of
/// `Verdict`, and, where there is a third, a number that becomes 0 unless the update is applied. It
/// is when the loss and all gradients are finite. All float64.
inline constexpr Kernel<NoAttributes> judge_update{"judge_update", /*updates=*/true};

struct JudgePieceAttributes {
  optim::PieceJudged judged = optim::PieceJudged::loss;
};
/// Of an update in pieces, each of which takes place unless the loss or a gradient before it is not
/// finite. in: the loss, or the sum of the squares of a gradient; out: the `StepScalars`, of which
/// `kApplied` is set by the loss and kept or cleared by gradients, and the numbers of `Verdict`, of
/// which `kVerdictPieces` is set to 0 by the loss and counts the updates that took place. All
/// float64.
inline constexpr Kernel<JudgePieceAttributes> judge_piece{"judge_piece", /*updates=*/true};

}  // namespace brim::kernel
