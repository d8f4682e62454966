// `train --profile FILE.html`: where the time of the first updates after a warm-up went, as a page,
// as tables for people and as an event for programs. In a program of your own use `Profile`
// (train/profile.h).
#pragma once

#include <optional>

#include "brim/apps/support/events.h"
#include "brim/apps/support/train_flags.h"
#include "brim/train/profile_report.h"

namespace brim::apps {

/// Before anything that takes long. Throws `ValueError` for another ending than .html and beside
/// `--replay`, `FileError` where the file cannot be written.
void check_profile_flags(const TrainFlags& flags);

/// What a profile is held against, of a CPU; nothing without the flag. It holds bytes of its own
/// meanwhile: before the training has some.
std::optional<MachinePeak> peak_for_profile(const TrainFlags& flags);

class RunProfile {
 public:
  /// Does nothing without the flag. Flags and events must outlive it.
  RunProfile(const TrainFlags& flags, const std::optional<MachinePeak>& peak, Events& events);
  /// For `TrainerOptions`; null without the flag.
  Profile* profile() { return profile_ ? &*profile_ : nullptr; }
  /// After each update: writes the page as soon as all is seen.
  void step();
  /// Writes the page where the run ended before, and the event; returns the text, "" without the
  /// flag.
  std::string finish();

 private:
  ProfileReport report() const { return profile_report(*profile_, peak_); }
  void write_page();

  const TrainFlags& flags_;
  Events& events_;
  std::optional<MachinePeak> peak_;
  std::optional<Profile> profile_;
  bool written_ = false;
};

}  // namespace brim::apps
