// What every bundled program does alike: flags with suggestions for mistyped ones, one clear line
// per error, whichever library found it, exit codes (0 success, 1 error, 2 does not fit), output
// that is lost as an error, paths relative to where the person stands.
#pragma once

#include <functional>
#include <string>

#include "brim/apps/support/app.h"

namespace brim::apps {

/// Thrown where the answer is "does not fit": exit code 2, with the message on standard error.
struct DoesNotFit {
  std::string message;
};

/// Thrown where the person ended a run that is not done: exit code 1, with the message.
struct Stopped {
  std::string message;
};

/// Parses the flags into what `app` was told to fill, then runs `body`, in which signals that end
/// set `StopSignal` and stop what looks (base/stop.h). Returns the exit code.
/// The footer of `--help` should show examples.
int run_program(App& app, int argc, char** argv, const std::function<void()>& body);

}  // namespace brim::apps
