// Where the time of a training's updates goes: every launch of a few of them, by module, op and
// phase, with its seconds, the bytes that it moved and the FLOPs of its op. On a GPU the seconds
// come from events beside the kernels, so that host and device run on as ever. Numbers and bytes of
// the training stay the same. train/profile_report.h says what it means, as text, as tables and as
// a page.
//
//   Profile profile({.device = Device::cpu()});
//   Trainer trainer(model, sgd, data, {..., .profile = &profile});
//
// In a loop of one's own, around each update:
//
//   Profile::Scope profiling(&profile, i);
//   step.run(rate, loss);
//   profiling.keep();
//
// How fast this machine could be is in train/calibration.h, what a step holds in a trace
// (autograd/trace_recorder.h). An update that starts from a graph (train/step_graph.h) launches
// nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "brim/base/device.h"
#include "brim/memory/site.h"
#include "brim/train/launch_clock.h"

namespace brim {

/// What launches took and did.
struct LaunchCost {
  int64_t launches = 0;
  double seconds = 0;  ///< scratch asked for and given back included
  /// Counted as in autograd/trace_recorder.h, the FLOPs for the whole op.
  int64_t bytes_moved = 0;
  int64_t bytes_widened = 0;  ///< of those moved, float32 copies of halves
  double flops = 0;
  double half_flops = 0;  ///< of those, of ops whose results are halves
  /// At the machine's peak (train/machine_peak.h), where a report knows it.
  double least_seconds = 0;

  double excess() const { return seconds - least_seconds; }

  LaunchCost& operator+=(const LaunchCost& other);
};

/// All launches of an op in a module and a phase.
struct OpCost {
  std::string module;  ///< dotted path; "" outside of modules
  std::string op;      ///< of a kernel outside of ops its own name
  /// What is outside of ops (optimizer, copies of running statistics, the seed of backward) is of
  /// the update.
  memory::Phase phase = memory::Phase::other;
  LaunchCost cost = {};
};

struct ProfiledUpdate {
  int64_t step = 0;         ///< counted from 0
  double seconds = 0;       ///< from its begin until the device was done with it
  std::vector<OpCost> ops;  ///< in the order in which they first ran
};

struct ProfileOptions {
  /// Whose launches there are. What runs on the host beside a GPU is timed as what the GPU did
  /// meanwhile.
  Device device = Device::cpu();
  int64_t warm_up = 3;  ///< updates at first that are not looked at
  int64_t updates = 5;  ///< that are
};

class Profile {
 public:
  /// Throws `ValueError` for a negative `warm_up`, and for `updates` below 1.
  explicit Profile(const ProfileOptions& options = {});

  /// Sees the launches of this thread until it ends, where an update is due; nothing for no
  /// profile. On a GPU it waits for the device before and after.
  class Scope;

  /// Is the next update to be looked at?
  bool is_due() const { return seen_ >= options_.warm_up && !is_done(); }
  /// Were as many looked at as were wanted?
  bool is_done() const { return std::ssize(updates_) >= options_.updates; }
  const ProfileOptions& options() const { return options_; }
  const std::vector<ProfiledUpdate>& updates() const { return updates_; }

 private:
  void add(ProfiledUpdate update);

  ProfileOptions options_;
  std::unique_ptr<LaunchClock> clock_;
  int64_t seen_ = 0;  // updates that were kept, those of the warm-up too
  std::vector<ProfiledUpdate> updates_;
};

class Profile::Scope {
 public:
  Scope(Profile* profile, int64_t step);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  /// What was seen counts: the update was applied. Nothing of it does otherwise.
  void keep();

 private:
  class Observer;
  Profile* profile_;
  int64_t step_;
  std::unique_ptr<Observer> observer_;
};

}  // namespace brim
