// Bytes against extra time of a training that recomputes: plans from keeping everything down to the
// least, and other ways beside them, each rehearsed. For looking at, and to choose a budget by; for
// a budget that is given use choose_recomputation (recompute_plan.h), which is quicker.
#pragma once

#include <string>
#include <vector>

#include "brim/train/recompute_plan.h"

namespace brim {

/// A way to run the training.
struct CurvePoint {
  std::string name;  ///< "keep everything", "least", or as it was given; "" for a plan between
  RecomputeOptions recompute;
  StepMemory memory;         ///< of the whole training
  double extra_seconds = 0;  ///< of what a rehearsed micro-step makes again
  /// No plan that holds as little takes fewer; 0 for ways that were given.
  double bound_seconds = 0;
  int64_t rebuilt = 0;  ///< values that a micro-step makes again
};

struct RecomputeCurve {
  double seconds = 0;  ///< of a micro-step that keeps everything
  /// With falling bytes and rising seconds. The first keeps everything, the last is the planner's
  /// least. `choose_recomputation` looks for less where a limit is refused: some buffers' padding.
  std::vector<CurvePoint> front;
  std::vector<CurvePoint> beside;  ///< as they were given
};

struct RecomputeWay {
  std::string name;
  RecomputeOptions recompute;
};

struct CurveOptions {
  int points = 20;  ///< of the front, at most
  std::vector<RecomputeWay> beside = {};
};

/// For the training as `setup` says, but for what it recomputes. Plans and rehearses it for each
/// point: a second or several of each for a deep model. Throws `ValueError` for fewer than 2
/// points.
RecomputeCurve recompute_curve(const TrainingSetup& setup, const CurveOptions& options = {});

/// Segments of equal length (recompute_options.h), in the number that needs the fewest live bytes:
/// what one gets without planning. Tries numbers up to twice the root of the number of calls.
RecomputeWay best_segments(const RehearsalOptions& training);

}  // namespace brim
