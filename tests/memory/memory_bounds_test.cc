// What bounds the process's memory, from files of systems that this machine need not be.
#include "brim/memory/memory_bounds.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string_view>

#include "brim/tests/support/temp_folder.h"

using namespace brim::memory;

namespace {

struct System : brim::testing::TempFolder {
  void set(const std::string& file, std::string_view text) const {
    write(file, std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
  }
  MemoryBound bound(const std::string& name) const {
    for (const MemoryBound& one : memory_bounds(path()))
      if (one.name == name) return one;
    return {};
  }
};

}  // namespace

TEST_CASE("of the machine what nobody holds is available, files in memory included") {
  System system;
  system.set("proc/meminfo", "MemTotal:  2048 kB\nMemFree:  10 kB\nMemAvailable:  1024 kB\n");
  CHECK(system.bound("the machine").limit == 2 << 20);
  CHECK(system.bound("the machine").available == 1 << 20);
  system.set("proc/meminfo", "MemTotal:  2048 kB\n");  // an old kernel
  CHECK(system.bound("the machine").available == 2 << 20);
  CHECK(memory_bounds(system.path() + "/nowhere").empty());
}

TEST_CASE("a group of cgroup v2: its limit less what all in it hold, but for files") {
  System system;
  system.set("proc/self/cgroup", "0::/a/b\n");
  const std::string group = "sys/fs/cgroup/a/";
  system.set(group + "memory.max", "1000000\n");
  system.set(group + "memory.current", "400000\n");
  system.set(group + "memory.stat", "anon 250000\ninactive_file 100000\nactive_file 50000\n");
  CHECK(system.bound("the control group /a").limit == 1000000);
  CHECK(system.bound("the control group /a").available == 750000);
  CHECK(memory_bounds(system.path()).size() == 1);  // /a/b has no limit
  system.set(group + "memory.high", "600000\n");    // beyond it all stands still
  CHECK(system.bound("the control group /a").limit == 600000);
  CHECK(system.bound("the control group /a").available == 350000);
  system.set(group + "memory.current", "900000\n");
  CHECK(system.bound("the control group /a").available == 0);
  system.set(group + "memory.max", "max\n");
  system.set(group + "memory.high", "max\n");
  CHECK(memory_bounds(system.path()).empty());
}

TEST_CASE("a group of cgroup v1: numbers of the groups below it count") {
  System system;
  system.set("proc/self/cgroup", "4:memory:/docker/x\n3:cpu:/docker/x\n0::/\n");
  // As a container sees it: the group itself is the root of what is mounted.
  const std::string group = "sys/fs/cgroup/memory/";
  system.set(group + "memory.limit_in_bytes", "1000000\n");
  system.set(group + "memory.usage_in_bytes", "500000\n");
  system.set(group + "memory.stat", "inactive_file 1\ntotal_inactive_file 200000\n");
  CHECK(system.bound("the control group /").available == 700000);
  system.set(group + "memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(memory_bounds(system.path()).empty());
}

TEST_CASE("limits of the process count what it holds of addresses") {
  System system;
  system.set("proc/self/limits",
             "Limit                     Soft Limit           Hard Limit           Units     \n"
             "Max data size             unlimited            unlimited            bytes     \n"
             "Max address space         1048576000           unlimited            bytes     \n");
  system.set("proc/self/status", "VmSize:\t  1000 kB\nVmData:\t  10 kB\n");
  CHECK(system.bound("ulimit -v").limit == 1048576000);
  CHECK(system.bound("ulimit -v").available == 1048576000 - 1000 * 1024);
  CHECK(system.bound("ulimit -v").of_addresses);
  CHECK(memory_bounds(system.path()).size() == 1);
  CHECK(thread_addresses() > 64 << 20);
}

TEST_CASE("of this machine there is memory, and a limit that is set is seen") {
  const std::vector<MemoryBound> bounds = memory_bounds();
  REQUIRE(!bounds.empty());
  for (const MemoryBound& bound : bounds) {
    CAPTURE(bound.name);
    CHECK(bound.available > 0);
    CHECK(bound.available <= bound.limit);
  }
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_DATA, &before) == 0);
  rlimit low = before;
  low.rlim_cur = rlim_t{1} << 40;
  REQUIRE(setrlimit(RLIMIT_DATA, &low) == 0);
  const std::vector<MemoryBound> now = memory_bounds();
  CHECK(std::ranges::any_of(now, [](const MemoryBound& bound) {
    return bound.name == "ulimit -d" && bound.limit == int64_t{1} << 40;
  }));
  setrlimit(RLIMIT_DATA, &before);
}
