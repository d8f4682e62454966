// What a `Profile` of a training says: medians over the updates that it looked at, summed by module
// and by op, with how fast memory was moved and arithmetic done, and the time of an update that no
// launch accounts for. As text for people and as a page for a browser.
//
// Where the machine's peak is known, what each launch takes at least under it stands beside, and
// rows are sorted by their excess: seconds beyond that.
//
// On a CPU that time is what the host does between kernels: shapes, allocation, the tape. On a GPU
// it is what the GPU waits for, since the host works beside it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brim/train/machine_peak.h"
#include "brim/train/profile.h"

namespace brim {

struct ProfileReport {
  std::vector<int64_t> steps;  ///< updates that count, from 0
  int64_t unlike = 0;          ///< updates that do not, since they launched other work
  /// In the order in which they first ran; seconds are medians over the updates.
  std::vector<OpCost> ops;
  LaunchCost launched;  ///< the sum of `ops`
  double outside = 0;   ///< seconds of an update in which nothing that was launched ran, the median
  double clocked = 0;   ///< seconds of a whole update, the median

  std::optional<MachinePeak> peak;

  /// Of an update in which everything takes its median. What else runs on the machine strikes
  /// another op in each update: `clocked` has such delays in it.
  double seconds() const { return launched.seconds + outside; }
};

/// Of the updates that the profile has so far. Where some differ from others (the last batch of an
/// epoch is smaller), those count of which there are most. With a peak, costs have their
/// `least_seconds`.
ProfileReport profile_report(const Profile& profile, const std::optional<MachinePeak>& peak = {});

/// A module with all that is in it, as a row of a tree.
struct ModuleCost {
  std::string module;  ///< "layer1.0"; "" for what is in none, which has no rows below it
  int depth = 0;       ///< 0 at the top
  LaunchCost cost = {};
  std::array<double, memory::kPhaseCount> seconds{};  ///< by phase
};

/// Each module before those in it, in the order in which they first ran.
std::vector<ModuleCost> by_module(const ProfileReport& report);
/// Summed over all modules, the slowest first, with a peak those of the greatest excess.
std::vector<OpCost> by_op(const ProfileReport& report);
/// Summed over the ops of each module, without those in it, in that order too.
std::vector<OpCost> by_layer(const ProfileReport& report);
/// Each op of each module and phase by itself, in that order too.
std::vector<OpCost> by_call(const ProfileReport& report);
/// Seconds of each phase.
std::array<double, memory::kPhaseCount> by_phase(const ProfileReport& report);

/// For people: sentences, one a line.
std::vector<std::string> summary_of(const ProfileReport& report);
/// And tables of the `most` modules, each without those in it, ops, and ops of modules, in the
/// order of `by_op`.
std::string table_of(const ProfileReport& report, size_t most = 10);

/// As a page for a browser (memory/report/profile_page.h). `about` are lines on the run: the model,
/// the batch, the device.
std::string profile_page(const ProfileReport& report, const std::vector<std::string>& about = {});

}  // namespace brim
