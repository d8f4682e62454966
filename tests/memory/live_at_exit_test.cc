// What is printed when a program ends: each case is a program of its own, a child of this one.
#include "brim/memory/live_at_exit.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>

#include "brim/memory/account.h"

using namespace brim;
using namespace brim::memory;

namespace {

/// What a program that calls `body` and ends has on standard error.
std::string errors_of(const std::function<void()>& body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::fflush(nullptr);
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    body();
    std::exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  return text;
}

void hold_two_buffers() {
  static const std::string module = "cache";
  SiteScope site({.op = "relu", .module = &module, .file = "main.cc", .line = 9});
  auto ledger = account(Device::cpu());
  ledger->allocate(1024, Category::activations);
  ledger->allocate(64, Category::other);
}

const char* const kReport =
    "brim: at exit cpu holds 1.1 KiB (1088 bytes) in 2 buffers:\n"
    "      1 KiB  activations    cache: relu at main.cc:9\n"
    "       64 B  other          cache: relu at main.cc:9\n";

}  // namespace

TEST_CASE("what is held at the end is printed where that was asked for") {
  CHECK(errors_of([] {
          report_live_at_exit(Device::cpu());
          hold_two_buffers();
        }) == kReport);
  CHECK(errors_of([] {
          setenv("BRIM_REPORT_LEAKS", "1", 1);
          hold_two_buffers();
        }) == kReport);
}

TEST_CASE("a program that returned everything says so, and one that was not asked says nothing") {
  CHECK(errors_of([] { report_live_at_exit(Device::cpu()); }) ==
        "brim: at exit cpu holds nothing\n");
  CHECK(errors_of(hold_two_buffers) == "");
}

TEST_CASE("globals that were made after it was asked for are gone by then") {
  struct Holder {
    Block block = account(Device::cpu())->allocate(64, Category::other);
    ~Holder() { account(Device::cpu())->release(block); }
  };
  CHECK(errors_of([] {
          report_live_at_exit(Device::cpu());
          static Holder holder;
        }) == "brim: at exit cpu holds nothing\n");
}
