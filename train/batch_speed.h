// The fastest batch, from a measured curve of speed over batches: a few sizes are timed, and the
// smallest that is nearly as fast as the best is taken. Speeds are of this machine, now: unlike the
// largest batch that fits (batch_tuning.h), the answer may differ from run to run, so a training
// that shall be repeated is given the batch as a number.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace brim {

struct SpeedPoint {
  int64_t batch = 0;
  double images_per_second = 0;
};

struct CandidateOptions {
  int64_t least = 1;     ///< no smaller batch
  int64_t most = 1;      ///< no larger one: the largest that fits
  int64_t multiple = 1;  ///< of which each is one
};

/// `multiple` times 1, 2, 3, 4, 6, 8, 12, ... from `least` to `most`: powers of two and the middle
/// between them; and the largest that may be. Increasing. Throws `ValueError` where there is none.
std::vector<int64_t> candidate_batches(const CandidateOptions& options);

struct BatchSpeedOptions {
  std::vector<int64_t> batches;
  /// One micro-step and one update with `batch` images; returns when the device has done it.
  std::function<void(int64_t batch)> step;
  int repeats = 3;  ///< timed steps of each batch, after one that is not; their median counts
  /// Seconds since some moment; without one, those of the steady clock.
  std::function<double()> now;
};

/// A point for each batch, in their order. What `step` throws passes through. Throws `ValueError`
/// for no batches or repeats, a batch below 1, no step, and a clock that stands still.
std::vector<SpeedPoint> measure_speed(const BatchSpeedOptions& options);

/// The smallest batch whose speed is at least `share` of the best one. Where each speed is off by
/// at most the part e of the true one, the true speed of what is found is at least
/// share * (1 - e) / (1 + e) of the best, and every smaller batch of the curve is below
/// share * (1 + e) / (1 - e) of it. Throws `ValueError` for an empty curve, a speed that is not
/// positive and finite, and a share outside (0, 1].
SpeedPoint knee(std::span<const SpeedPoint> curve, double share = 0.95);

/// The curve for a terminal, a line a point with a bar, the knee marked. Throws as `knee`.
///
///   batch   8   812 images/s  ######################
///   batch  16  1101 images/s  ##############################   <- the knee
std::string draw_speed(std::span<const SpeedPoint> curve, double share = 0.95);

}  // namespace brim
