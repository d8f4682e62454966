// `train --watch-numerics`: what the numbers of a run lose in 16 bits, as a table for people, as an
// event for programs and, with a file, as a page. In a program of your own use `NumericsWatch`
// (train/numerics_watch.h).
#pragma once

#include <optional>

#include "brim/apps/support/app.h"
#include "brim/apps/support/events.h"
#include "brim/apps/support/train_flags.h"

namespace brim::apps {

/// Declares the flags; `flags` must outlive the parsing.
void add_watch_flags(App& app, TrainFlags& flags);
/// Before anything that takes long. Throws `ValueError` for another ending than .html, `FileError`
/// where the file cannot be written.
void check_watch_page(const std::string& path);

class RunWatch {
 public:
  /// Does nothing without the flag. Both must outlive it.
  RunWatch(const TrainFlags& flags, Events& events);
  /// For `TrainerOptions`; null without the flag.
  NumericsWatch* watch() { return watch_ ? &*watch_ : nullptr; }
  /// Writes the event, and the page if one was asked for; returns the text, "" without the flag.
  std::string finish() const;
  /// The same; of a page that cannot be written the text says so.
  std::string finish_after_error() const;

 private:
  const TrainFlags& flags_;
  Events& events_;
  std::optional<NumericsWatch> watch_;
};

}  // namespace brim::apps
