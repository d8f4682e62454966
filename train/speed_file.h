// The measured speed of a machine as the file that keeps it (train/calibration.h): two lines of
// JSON, the second what was measured and where, the first its format, version and checksum. What is
// read is untrusted: anything but the very text that was written is refused with the reason.
#pragma once

#include <string>
#include <string_view>

#include "brim/train/measured_speed.h"

namespace brim {

/// What speed depends on.
struct Machine {
  std::string processor;     ///< its name, or "unknown"
  std::string instructions;  ///< that kernels work with
  std::string build;         ///< of the library, and of those that compute for it
  int threads = 1;
  friend bool operator==(const Machine&, const Machine&) = default;
};

/// Where this runs, with as many threads as kernels have now.
Machine this_machine();

std::string to_text(const MeasuredSpeed& speed, const Machine& machine);

/// The speed in `text`. Throws `FileError` where it is damaged, of another version, holds numbers
/// out of range, or is of another machine.
MeasuredSpeed speed_from(std::string_view text, const Machine& machine);

}  // namespace brim
