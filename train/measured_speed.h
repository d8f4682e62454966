// The speed of this machine, measured: a few ops of typical shapes are timed, forward, again and
// backward, and each gives a rate of arithmetic or of traffic. What programs use is
// `calibrated_speed` (train/calibration.h), which keeps the answer; times of the very ops of a
// training come from train/measured_ops.h.
#pragma once

#include <cstdint>
#include <functional>

#include "brim/base/device.h"
#include "brim/train/device_speed.h"

namespace brim {

/// Bytes that measuring holds at once, at the most, in an account of its own: its tensors are
/// larger than the caches of most processors.
inline constexpr int64_t kSpeedBytes = int64_t{128} << 20;

struct SpeedOptions {
  Device device = Device::cpu();
  /// Seconds since some moment; without one, those of the steady clock.
  std::function<double()> now = {};
};

struct MeasuredSpeed {
  DeviceSpeed speed = {};
  /// Each op was timed in so many rounds, from 1, and its fastest run counts.
  int rounds = 1;
  /// What the slowest round took beyond the fastest runs of all, as a share of these: well below
  /// 0.1 on a machine that does nothing else. Where it is more, the rates may be too low.
  double spread = 0;
  friend bool operator==(const MeasuredSpeed&, const MeasuredSpeed&) = default;
};

/// One to three seconds, on the CPU: in rounds, since whatever else runs there comes and goes,
/// until one more finds next to nothing faster. Dense convolutions and matrix products give rates
/// of arithmetic, the median counts; elementwise ops those of traffic; the tiniest op the start of
/// one. Convolution (whose traffic is that of a depthwise one), `linear`, batch norm and max
/// pooling have rates of their own, for each phase. Each op counts by the fastest of its runs.
/// Throws `DeviceError` for another device than the CPU, `memory::OutOfMemory`.
MeasuredSpeed measured_speed(const SpeedOptions& options = {});

}  // namespace brim
