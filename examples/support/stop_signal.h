// The wish to stop, by Ctrl-C or `kill`: while a `StopSignal` lives, the first SIGINT or SIGTERM
// only sets a flag, so that the program can finish its step and write what it has; a second one
// ends the process at once. For programs: a library leaves signals to whoever calls it.
#pragma once

#include <signal.h>

#include <array>
#include <string_view>

namespace brim::examples {

class StopSignal {
 public:
  /// From now on the signals do what this says, whatever they did before, also where they were
  /// ignored. One at a time: throws `ValueError` while there is another.
  StopSignal();
  /// The signals do again what they did before. One that came and was not asked for is forgotten.
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// Whether a signal came.
  bool requested() const;
  /// "SIGINT" or "SIGTERM", whichever came; "" before one does.
  std::string_view name() const;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM};
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace brim::examples
