#include "brim/examples/support/stop_signal.h"

#include <atomic>

#include "brim/base/error.h"

namespace brim::examples {
namespace {

// What a handler touches: without locks, it may run inside of anything.
std::atomic<int> came = 0;
static_assert(std::atomic<int>::is_always_lock_free);
std::atomic<bool> in_use = false;

extern "C" void remember_or_end(int signal) {
  if (came.exchange(signal) == 0) return;
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
  ::raise(signal);  // is delivered when the handler returns
}

}  // namespace

StopSignal::StopSignal() {
  expect<ValueError>(!in_use.exchange(true), "stop_signal", "there is another StopSignal");
  came = 0;
  struct sigaction action {};
  action.sa_handler = remember_or_end;
  action.sa_flags = SA_RESTART;  // reading and writing go on
  ::sigemptyset(&action.sa_mask);
  for (int signal : kSignals) ::sigaddset(&action.sa_mask, signal);
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &before_[i]);
}

StopSignal::~StopSignal() {
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  in_use = false;
}

bool StopSignal::requested() const { return came != 0; }

std::string_view StopSignal::name() const {
  switch (came) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    default:
      return "";
  }
}

}  // namespace brim::examples
