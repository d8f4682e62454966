#include "brim/memory/summary.h"

#include <doctest/doctest.h>

#include <regex>

using namespace brim;
using namespace brim::memory;

namespace {

const Device kCpu = Device::cpu();

}  // namespace

TEST_CASE("the numbers that people know, now and at the peak") {
  auto account = capped_host_account("caching", 64 << 20);
  AccountScope scope(account);
  Block a = account->allocate(1000, Category::parameters);
  Block b = account->allocate(3 << 20, Category::activations);
  account->release(b);
  CHECK(memory_allocated(kCpu) == 1024);
  CHECK(max_memory_allocated(kCpu) == 1024 + (3 << 20));
  CHECK(memory_reserved(kCpu) == (2 << 20) + (3 << 20));
  CHECK(max_memory_reserved(kCpu) == memory_reserved(kCpu));
  account->empty_cache();
  CHECK(memory_reserved(kCpu) == 2 << 20);
  CHECK(max_memory_reserved(kCpu) == (2 << 20) + (3 << 20));
  reset_peak(kCpu);
  CHECK(max_memory_allocated(kCpu) == 1024);
  CHECK(max_memory_reserved(kCpu) == 2 << 20);
  account->release(a);
}

TEST_CASE("the summary has live bytes by category, now and at the moment of the peak") {
  auto account = std::make_shared<Account>(Device::meta(), std::make_unique<NullSource>(),
                                           planner_named("direct"));
  AccountScope scope(account);
  Block a = account->allocate(1 << 20, Category::gradients);
  Block b = account->allocate(1 << 19, Category::scratch);
  account->release(b);
  Block c = account->allocate(1 << 10, Category::optimizer);  // after the peak
  CHECK(memory_summary(Device::meta()) ==
        "meta memory, direct planner\n"
        "  reserved              1 MiB   at peak      1.5 MiB\n"
        "  live                  1 MiB   at peak      1.5 MiB\n"
        "  gradients             1 MiB   at peak        1 MiB\n"
        "  optimizer             1 KiB   at peak          0 B\n"
        "  scratch                 0 B   at peak      512 KiB\n"
        "  cached                  0 B\n"
        "  fragmented              0 B\n");
  for (const Block& block : {a, c}) account->release(block);
}

TEST_CASE("on the CPU it has what the process holds beside the account, and the limit") {
  auto account = capped_host_account("direct", 1 << 30);
  AccountScope scope(account);
  std::string text = memory_summary(kCpu);
  CHECK(text.find("\n  limit                 1 GiB\n") != std::string::npos);
  CHECK(
      std::regex_search(text, std::regex(R"(\n  process  +[0-9.]+ MiB   at peak +[0-9.]+ MiB\n)"
                                         R"(  outside the account: [0-9.]+ MiB )"
                                         R"(\(the program, its libraries, its other data\)\n$)")));
  // Pages that nobody touched are reserved and not in memory.
  Block untouched = account->allocate(1 << 29, Category::other);
  CHECK(std::regex_search(memory_summary(kCpu),
                          std::regex(R"(\n  outside the account: unknown; [0-9.]+ MiB or more of )"
                                     R"(what is reserved was never touched\n$)")));
  account->release(untouched);
}

TEST_CASE("the snapshot has every buffer, the largest first, of equal ones the oldest") {
  auto account = capped_host_account("direct");
  AccountScope scope(account);
  CHECK(memory_snapshot(kCpu).empty());
  Block a = account->allocate(64, Category::other), b = account->allocate(128, Category::other),
        c = account->allocate(64, Category::scratch);
  auto snapshot = memory_snapshot(kCpu);
  REQUIRE(snapshot.size() == 3);
  CHECK(snapshot[0].id == 2);
  CHECK(snapshot[1].id == 1);
  CHECK(snapshot[2].id == 3);
  CHECK(describe(snapshot, 2) ==
        "256 B (256 bytes) in 3 buffers:\n"
        "      128 B  other\n"
        "       64 B  other\n"
        "  and 1 more");
  for (const Block& block : {a, b, c}) account->release(block);
}
