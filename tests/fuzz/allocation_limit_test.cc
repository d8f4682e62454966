// Proves that the limit of the fuzz targets ends a program that holds too much, in one piece or in
// many, and no other, in the builds that have a sanitizer's hooks.
#include "brim/tests/support/allocation_limit.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <vector>

extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*, size_t),
                                                         void (*)(const volatile void*))
    __attribute__((weak));

namespace {

/// Whether a process is aborted that holds `pieces` of `bytes` each, all at once or one by one.
bool aborted(size_t limit, int pieces, size_t bytes, bool at_once) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::vector<void*> held(static_cast<size_t>(pieces));
    void* before = std::malloc(10 * limit);
    brim::testing::AllocationLimit limited(limit);
    for (void*& piece : held) {
      piece = std::malloc(bytes);
      if (!at_once) std::free(piece);
    }
    std::free(before);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) || WTERMSIG(status) == SIGABRT));
  return WIFSIGNALED(status);
}

}  // namespace

TEST_CASE("what is held at once is limited") {
  const bool hooks = __sanitizer_install_malloc_and_free_hooks != nullptr;
  MESSAGE("hooks: ", hooks);
#ifdef __SANITIZE_ADDRESS__
  REQUIRE(hooks);
#endif
  CHECK(aborted(10'000, 1, 20'000, true) == hooks);
  CHECK(aborted(10'000, 50, 1'000, true) == hooks);
  CHECK_FALSE(aborted(10'000, 50, 1'000, false));
  CHECK_FALSE(aborted(10'000, 9, 1'000, true));
}
