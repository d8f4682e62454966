#include "brim/memory/host_memory.h"

#include <doctest/doctest.h>

#include <span>
#include <string_view>
#include <vector>

#include "brim/memory/account.h"
#include "brim/memory/out_of_memory.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim::memory;

namespace {

struct Groups : brim::testing::TempFolder {
  void set(const std::string& file, std::string_view text) const {
    write(file, std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
  }
};

}  // namespace

TEST_CASE("the process's memory grows with what it touches, and the peak stays") {
  constexpr int64_t kMiB = 1 << 20;
  ResidentMemory before = resident_memory(), during;
  {
    std::vector<char> touched(64 * kMiB, 1);
    during = resident_memory();
    CHECK(touched[kMiB] == 1);
  }
  // Some of it may have been there, free, before, and the kernel's counts lag by some pages.
  CHECK(during.now >= before.now + 48 * kMiB);
  ResidentMemory after = resident_memory();
  CHECK(after.peak >= before.now + 48 * kMiB);
  CHECK(after.now <= after.peak);
}

TEST_CASE("the host's account ends where the machine's memory does") {
  CHECK(host_memory() >= int64_t{64} << 20);
  CHECK(account(brim::Device::cpu())->cap() == host_memory());
  CHECK_THROWS_AS(account(brim::Device::cpu())->allocate(host_memory() + 1, Category::other),
                  OutOfMemory);
}

TEST_CASE("cgroup v2: the smallest limit of a group and those above it") {
  Groups root;
  root.set("memory.max", "max\n");
  root.set("a/memory.max", "5000\n");
  root.set("a/b/memory.max", "7000\n");
  root.set("c/memory.max", "100\n");
  CHECK(control_group_limit("0::/a/b\n", root.path()) == 5000);
  CHECK(control_group_limit("0::/c\n", root.path()) == 100);
  CHECK(control_group_limit("0::/\n", root.path()) == Source::kUnlimited);
  CHECK(control_group_limit("0::/not/mounted/here\n", root.path()) == Source::kUnlimited);
  root.set("memory.max", "4000\n");
  CHECK(control_group_limit("0::/not/mounted/here\n", root.path()) == 4000);
}

TEST_CASE("cgroup v1: the memory hierarchy counts, others do not") {
  Groups root;
  root.set("memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.set("memory/a/memory.limit_in_bytes", "3000\n");
  root.set("cpu/a/memory.limit_in_bytes", "1\n");
  CHECK(control_group_limit("5:cpu,cpuacct:/a\n4:memory:/a\n", root.path()) == 3000);
}

TEST_CASE("what is not a list of groups has no limit") {
  Groups root;
  for (const char* text : {"", "\n", "nonsense", "0:", "1:memory", "4:memory:a"}) {
    CAPTURE(text);
    CHECK(control_group_limit(text, root.path()) == Source::kUnlimited);
  }
}
