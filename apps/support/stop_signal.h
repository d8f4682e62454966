// What signals ask of a program: while a `StopSignal` lives, SIGINT, SIGTERM and SIGHUP only set a
// flag, so that the program can undo or finish what it is at and write what it has; a second one
// ends the process at once. SIGUSR1 and SIGUSR2 ask for a checkpoint. A pipe that nobody reads any
// more and a file that may not grow are left to whoever writes: the write fails, and no signal ends
// the process. For programs: a library leaves signals to whoever calls it.
#pragma once

#include <signal.h>

#include <array>
#include <string_view>

namespace brim::apps {

class StopSignal {
 public:
  /// From now on the signals do what this says, whatever they did before, also where they were
  /// ignored; but a SIGHUP that was ignored, by `nohup` say, still is. One at a time: throws
  /// `ValueError` while there is another.
  StopSignal();
  /// The signals do again what they did before. One that came and was not asked for is forgotten.
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// Whether a signal that ends the program came.
  static bool requested();
  /// "SIGINT", "SIGTERM" or "SIGHUP", whichever came; "" before one does.
  static std::string_view name();

  /// "SIGUSR1" or "SIGUSR2", where one came and no checkpoint was written since; else "".
  static std::string_view checkpoint_wish();
  static void forget_checkpoint_wish();

 private:
  static constexpr std::array kEnd = {SIGINT, SIGTERM, SIGHUP}, kKeep = {SIGUSR1, SIGUSR2},
                              kIgnored = {SIGPIPE, SIGXFSZ};
  struct Before {
    int signal = 0;
    struct sigaction action {};
  };
  void set(int signal, void (*handler)(int));

  std::array<Before, kEnd.size() + kKeep.size() + kIgnored.size()> before_{};
  size_t count_ = 0;
};

}  // namespace brim::apps
