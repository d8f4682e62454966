// Proves that the first signal only leaves a note, that the second one ends the process, and that
// signals do afterwards what they did before. What may end is a process of its own.
#include "brim/apps/support/stop_signal.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>

#include "brim/base/error.h"
#include "brim/tests/support/errors.h"

using namespace brim;
using namespace brim::testing;
using apps::StopSignal;

namespace {

/// How a process that runs `body` and then exits with 7 ends: the number of the signal that ended
/// it, or minus its exit code.
int end_of(const std::function<void()>& body) {
  pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGPIPE, SIGXFSZ})
      ::signal(signal, SIG_DFL);  // not the test runner's
    body();
    ::_exit(7);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("the first signal is noted, by its name") {
  for (auto [signal, name] :
       {std::pair{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}}) {
    ::signal(SIGHUP, SIG_DFL);  // a test runner may have been told to outlive its terminal
    StopSignal stop;
    CHECK(!StopSignal::requested());
    CHECK(StopSignal::name() == "");
    ::raise(signal);
    CHECK(StopSignal::requested());
    CHECK(StopSignal::name() == name);
  }
}

TEST_CASE("a second signal of any kind ends the process at once, but for the same one sent twice") {
  for (auto [first, second] :
       {std::pair{SIGINT, SIGINT}, {SIGTERM, SIGINT}, {SIGHUP, SIGTERM}, {SIGINT, SIGHUP}}) {
    CAPTURE(first);
    CAPTURE(second);
    CHECK(end_of([&] {
            StopSignal stop;
            ::raise(first);
            ::raise(first);  // as `timeout` does, and a terminal that closes
            if (!StopSignal::requested()) ::_exit(1);
            ::usleep(1'100'000);
            ::raise(second);
          }) == second);
  }
}

TEST_CASE("a hangup that was ignored, as nohup does, still is") {
  CHECK(end_of([] {
          ::signal(SIGHUP, SIG_IGN);
          StopSignal stop;
          ::raise(SIGHUP);
          ::_exit(StopSignal::requested() ? 6 : 5);
        }) == -5);
}

TEST_CASE("a wish for a checkpoint is noted until it is forgotten, and ends nothing") {
  StopSignal stop;
  CHECK(StopSignal::checkpoint_wish() == "");
  for (auto [signal, name] : {std::pair{SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}}) {
    ::raise(signal);
    CHECK(StopSignal::checkpoint_wish() == name);
    CHECK(!StopSignal::requested());
    StopSignal::forget_checkpoint_wish();
    CHECK(StopSignal::checkpoint_wish() == "");
  }
}

TEST_CASE("what cannot be written fails, and ends no process") {
  CHECK(end_of([] {
          StopSignal stop;
          int ends[2];
          if (::pipe(ends) != 0) ::_exit(1);
          ::close(ends[0]);
          ::_exit(::write(ends[1], "x", 1) == -1 && errno == EPIPE ? 5 : 6);
        }) == -5);
  CHECK(end_of([] {
          StopSignal stop;
          const rlimit none{.rlim_cur = 0, .rlim_max = 0};
          std::FILE* file = std::tmpfile();
          if (file == nullptr || ::setrlimit(RLIMIT_FSIZE, &none) != 0) ::_exit(1);
          ::_exit(::write(::fileno(file), "x", 1) == -1 && errno == EFBIG ? 5 : 6);
        }) == -5);
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
          ::_exit(StopSignal::requested() ? 5 : 6);
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
          ::_exit(whole && StopSignal::requested() ? 5 : 6);
        }) == -5);
}

TEST_CASE("there is one at a time, and the next begins without a note") {
  {
    StopSignal stop;
    CHECK(contains(error_text<ValueError>([] { StopSignal another; }), "another StopSignal"));
    ::raise(SIGINT);
    CHECK(StopSignal::requested());
  }
  StopSignal next;
  CHECK(!StopSignal::requested());
}
