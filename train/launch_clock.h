// How long launches take, one after another: on the CPU by the steady clock, on a GPU by events
// that are recorded around each of them on its stream and read when all are done, so that the host
// never waits between two. For train/profile.h; what a whole step takes needs no such clock.
#pragma once

#include <memory>
#include <vector>

#include "brim/base/device.h"

namespace brim {

class LaunchClock {
 public:
  virtual ~LaunchClock() = default;
  /// A launch of this thread is about to run. One that never ends does not count.
  virtual void begin() = 0;
  /// It ran, or was enqueued.
  virtual void end() = 0;
  /// Waits for all that this thread's launches were given to do.
  virtual void wait() const = 0;
  /// Waits, gives the seconds of each launch that ended since the last call, in order, and forgets
  /// them.
  virtual std::vector<double> take() = 0;
};

/// For launches on `device`. On a GPU the seconds are the GPU's own, from when it comes to the
/// launch until it is done with it; where it came before the host had enqueued the kernel, the wait
/// for that counts too.
std::unique_ptr<LaunchClock> launch_clock(Device device);

}  // namespace brim
