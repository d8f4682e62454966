// Proves that the first signal only leaves a note, that the second one ends the process, and that
// signals do afterwards what they did before. What may end is a process of its own.
#include "brim/examples/support/stop_signal.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "brim/base/error.h"
#include "brim/tests/support/errors.h"

using namespace brim;
using namespace brim::testing;
using examples::StopSignal;

namespace {

/// How a process that runs `body` and then exits with 7 ends: the number of the signal that ended
/// it, or minus its exit code.
int end_of(const std::function<void()>& body) {
  pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (int signal : {SIGINT, SIGTERM}) ::signal(signal, SIG_DFL);  // not the test runner's
    body();
    ::_exit(7);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("the first signal is noted, by its name") {
  for (auto [signal, name] : {std::pair{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}}) {
    StopSignal stop;
    CHECK(!stop.requested());
    CHECK(stop.name() == "");
    ::raise(signal);
    CHECK(stop.requested());
    CHECK(stop.name() == name);
  }
}

TEST_CASE("a second signal of either kind ends the process at once") {
  for (int first : {SIGINT, SIGTERM})
    for (int second : {SIGINT, SIGTERM}) {
      CAPTURE(first);
      CAPTURE(second);
      CHECK(end_of([&] {
              StopSignal stop;
              ::raise(first);
              if (!stop.requested()) ::_exit(1);
              ::raise(second);
            }) == second);
    }
}

TEST_CASE("signals do afterwards what they did before") {
  CHECK(end_of([] {
          { StopSignal stop; }
          ::raise(SIGTERM);
        }) == SIGTERM);
  // After one came, too.
  CHECK(end_of([] {
          {
            StopSignal stop;
            ::raise(SIGTERM);
          }
          ::raise(SIGTERM);
        }) == SIGTERM);
  CHECK(end_of([] {
          ::signal(SIGINT, [](int) { ::_exit(3); });
          {
            StopSignal stop;
            ::raise(SIGINT);
          }
          ::raise(SIGINT);
        }) == -3);
  CHECK(end_of([] {
          ::signal(SIGINT, SIG_IGN);
          { StopSignal stop; }
          ::raise(SIGINT);
        }) == -7);
}

TEST_CASE("a signal that was ignored is noted") {
  CHECK(end_of([] {
          ::signal(SIGINT, SIG_IGN);
          StopSignal stop;
          ::raise(SIGINT);
          ::_exit(stop.requested() ? 5 : 6);
        }) == -5);
}

TEST_CASE("a read goes on after the first signal") {
  CHECK(end_of([] {
          int ends[2];
          if (::pipe(ends) != 0) ::_exit(1);
          StopSignal stop;
          pid_t parent = ::getpid();
          if (::fork() == 0) {
            ::usleep(50'000);
            ::kill(parent, SIGTERM);
            ::usleep(50'000);
            (void)!::write(ends[1], "x", 1);
            ::_exit(0);
          }
          char got = 0;
          bool whole = ::read(ends[0], &got, 1) == 1 && got == 'x';
          ::_exit(whole && stop.requested() ? 5 : 6);
        }) == -5);
}

TEST_CASE("there is one at a time, and the next begins without a note") {
  {
    StopSignal stop;
    CHECK(contains(error_text<ValueError>([] { StopSignal another; }), "another StopSignal"));
    ::raise(SIGINT);
    CHECK(stop.requested());
  }
  StopSignal next;
  CHECK(!next.requested());
}
