// What becomes of an update that was recorded (train/step_graph.h), judged on the device by the
// squares of its gradients: whether it takes place, and how far it is clipped. Nobody waits for the
// host then, which judges any other update between `prepare` and `commit` (optimizer.cc): the same
// sums in the same order, so the same bits.
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

/// Places in what `judge_update` leaves behind.
enum Verdict { kVerdictApplied, kVerdictNorm, kVerdictNumbers };

}  // namespace brim::optim

namespace brim::kernel {

/// in: the sums of the squares of all gradients, 0 for one that is not there, and the loss; out:
/// the `StepScalars`, of which the factor of the clip and `kApplied` are set, the numbers of
/// `Verdict`, and, where there is a third, a number that becomes 0 unless the update is applied. It
/// is when the loss and all gradients are finite. All float64.
inline constexpr Kernel<NoAttributes> judge_update{"judge_update", /*updates=*/true};

}  // namespace brim::kernel
