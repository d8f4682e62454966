// Times of ops as they are: each distinct call of a training is run a few times on real tensors of
// its shapes, forward, once more as for recomputation, and backward, and the median taken. The
// calls come from a rehearsal (train/op_runs.h). It costs about as much as a few steps, and the
// answer is of this machine, now: two measurements plan differently. Times that are the same
// tomorrow come from a calibration that is kept (train/calibration.h).
//
// The tensors are charged to an account of their own, which is empty between two calls.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "brim/memory/source.h"
#include "brim/train/op_runs.h"

namespace brim {

struct TimingOptions {
  Device device = Device::cpu();
  /// Bytes that a call may take: what its training may, since it runs the call too.
  int64_t capacity = memory::host_memory();
  int repeats = 3;        ///< timed runs at least, after one that is not; from 1
  double quantile = 0.5;  ///< of them that counts: the median; 0: the fastest
  /// Timed runs go on until they took so many seconds, or there are 20.
  double least_seconds = 1e-3;
  /// Seconds since some moment; without one, those of the steady clock.
  std::function<double()> now = {};
};

struct CallSeconds {
  double forward = 0;
  double replay = 0;    ///< of forward once more (`Op::forward_again`)
  double backward = 0;  ///< 0 where no gradient is wanted
};

/// Seconds of `call`, recorded on the meta device, for inputs in [0, 1) and labels 0. Throws
/// `memory::OutOfMemory` beyond the capacity, and what the op throws; `ValueError` for options out
/// of range.
CallSeconds time_call(const OpCall& call, const TimingOptions& options = {});

class MeasuredOps {
 public:
  explicit MeasuredOps(TimingOptions options = {}) : options_(std::move(options)) {}

  /// Times those of the calls that are new. One that cannot be timed is left out.
  void measure(const std::map<std::string, OpCall>& calls);
  /// Of a run whose call was timed.
  std::optional<double> seconds(const OpRun& run) const;

  int64_t timed() const { return timed_; }  ///< calls
  /// Why calls could not be timed, a line each.
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  TimingOptions options_;
  std::map<std::string, double> seconds_;  // by `OpRun::key`
  int64_t timed_ = 0;
  std::vector<std::string> left_out_;
};

}  // namespace brim
