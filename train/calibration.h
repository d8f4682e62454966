// The speed of this machine as predictions want it: measured once, and kept in a file, so that the
// same question has the same answer from then on. A file that is damaged, or of another machine,
// build or number of threads, is measured again, and that is said. For figures that are the same on
// every machine use `DeviceSpeed` as it is.
#pragma once

#include <functional>
#include <string>

#include "brim/base/device.h"
#include "brim/train/measured_speed.h"

namespace brim {

/// $BRIM_CACHE_DIR, else $XDG_CACHE_HOME/brim, else ~/.cache/brim; "" where none is set.
std::string cache_folder();

struct CalibrationOptions {
  std::string folder = cache_folder();  ///< made where it is missing; "": nothing is kept
  /// Without one `measured_speed`, which holds `kSpeedBytes` at the most in an account of its own:
  /// calibrate before the bytes of a training are in use.
  std::function<MeasuredSpeed()> measure = {};
  /// Told in one line why a file is not taken, or cannot be kept. Without one: standard error.
  std::function<void(const std::string&)> say = {};
};

/// From the file of this device and this number of threads in the folder, or measured and kept
/// there. What is in a file stays as it is, also where the machine was busy when it was measured
/// (`MeasuredSpeed::spread`): remove it to measure again. Processes may calibrate at once: each
/// file is written whole. Throws what measuring throws.
MeasuredSpeed calibrated_speed(Device device = Device::cpu(),
                               const CalibrationOptions& options = {});

/// Where it is kept for the number of threads that kernels have now: "op_times_cpu_2.json".
std::string calibration_file(Device device, const std::string& folder);

}  // namespace brim
