#include "brim/apps/support/stop_signal.h"

#include <time.h>

#include <atomic>

#include "brim/base/error.h"

namespace brim::apps {
namespace {

// What handlers touch: without locks, they may run inside of anything.
std::atomic<int> came = 0, wanted = 0;
std::atomic<int64_t> came_at = 0;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);
std::atomic<bool> in_use = false;

// `timeout` and a terminal that closes send what they send twice: to the process and to its group.
constexpr int64_t kSameWish = 1'000'000'000;  // nanoseconds

int64_t nanoseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);  // may be called here, unlike std::chrono's
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

extern "C" void remember_or_end(int signal) {
  int none = 0;
  if (came.compare_exchange_strong(none, signal)) {
    came_at = nanoseconds();
    return;
  }
  if (nanoseconds() - came_at < kSameWish) return;
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
  ::raise(signal);  // is delivered when the handler returns
}

extern "C" void remember_wish(int signal) { wanted = signal; }

std::string_view name_of(int signal) {
  switch (signal) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGHUP:
      return "SIGHUP";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGUSR2:
      return "SIGUSR2";
    default:
      return "";
  }
}

}  // namespace

StopSignal::StopSignal() {
  expect<ValueError>(!in_use.exchange(true), "stop_signal", "there is another StopSignal");
  came = 0;
  wanted = 0;
  struct sigaction hangup {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  for (int signal : kEnd)
    if (signal != SIGHUP || hangup.sa_handler != SIG_IGN) set(signal, remember_or_end);
  for (int signal : kKeep) set(signal, remember_wish);
  for (int signal : kIgnored) set(signal, SIG_IGN);
}

void StopSignal::set(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // reading and writing go on
  ::sigemptyset(&action.sa_mask);
  for (int other : kEnd) ::sigaddset(&action.sa_mask, other);
  Before& before = before_[count_++];
  before.signal = signal;
  ::sigaction(signal, &action, &before.action);
}

StopSignal::~StopSignal() {
  for (size_t i = 0; i < count_; ++i) ::sigaction(before_[i].signal, &before_[i].action, nullptr);
  in_use = false;
}

bool StopSignal::requested() { return came != 0; }
std::string_view StopSignal::name() { return name_of(came); }
std::string_view StopSignal::checkpoint_wish() { return name_of(wanted); }
void StopSignal::forget_checkpoint_wish() { wanted = 0; }

}  // namespace brim::apps
