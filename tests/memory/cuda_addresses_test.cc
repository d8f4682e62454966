// A GPU's virtual memory without an account: what an arena maps and when it lets go, and how many
// addresses pages of many sizes need. By a driver on the host's memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "brim/base/bytes.h"
#include "brim/base/random.h"
#include "brim/memory/arena_planner.h"
#include "brim/memory/cuda_virtual_source.h"
#include "brim/tests/support/fake_driver.h"
#include "brim/tests/support/memory_script.h"

using namespace brim;
using namespace brim::memory;
using brim::testing::FakeDriver;
using brim::testing::FakeDriverOptions;
using brim::testing::SimulatedDevice;

namespace {

constexpr int64_t kPage = int64_t{64} << 10, kTotal = 128 * kPage;

}  // namespace

TEST_CASE("virtual memory: an arena maps its planned height, in whole pages, in one piece") {
  brim::testing::ToyTraining toy(6);
  auto plan = std::make_shared<Plan>(
      make_plan(brim::testing::record({toy.setup(), toy.step({64, 64, 7})})));
  auto driver =
      std::make_shared<FakeDriver>(FakeDriverOptions{.total = 1 << 30, .granularity = kPage});
  CudaVirtualSource source(driver);
  const int64_t calls = driver->calls();
  ArenaPlanner planner(source, plan);
  CHECK(driver->held() == round_up(plan->arena_bytes, kPage));
  CHECK(planner.reserved() == driver->held());
  CHECK(planner.cached() == driver->held());
  CHECK(driver->calls() == calls + 3);  // create, map, allow access
}

TEST_CASE("virtual memory: an arena ends after the work on it, also where there was one stream") {
  brim::testing::ToyTraining toy(6);
  auto plan = std::make_shared<Plan>(
      make_plan(brim::testing::record({toy.setup(), toy.step({64, 64, 7})})));
  auto device = std::make_shared<SimulatedDevice>(/*streams=*/1, /*seed=*/1);
  auto driver = std::make_shared<FakeDriver>(
      FakeDriverOptions{.total = 1 << 30, .granularity = kPage, .device = device});
  CudaVirtualSource source(driver);
  source.set_stream_order(device);
  {
    const ArenaPlanner planner(source, plan);
    const void* held = reinterpret_cast<const void*>(driver->first_mapping());
    for (int i = 0; i < 20; ++i) device->enqueue(0, held, kPage, [] {});
    CHECK(device->uses(held, kPage));
  }
  CHECK(driver->breach() == "");
  CHECK(driver->held() == 0);
}

TEST_CASE("virtual memory: many requests of many sizes need no more addresses than were reserved") {
  auto driver =
      std::make_shared<FakeDriver>(FakeDriverOptions{.total = kTotal, .granularity = kPage});
  CudaVirtualSource source(driver);
  RandomStream random(RandomKey{7});
  std::vector<std::pair<void*, int64_t>> held;
  int64_t pages = 0;
  for (int i = 0; i < 2000; ++i) {
    const int64_t bytes = static_cast<int64_t>(1 + random.below(24)) * kPage;
    if (void* memory = source.allocate_pages(bytes)) {
      held.emplace_back(memory, bytes);
      pages += bytes / kPage;
    } else {
      auto& [memory_of, size] = held[random.below(held.size())];
      const int64_t half = size / kPage / 2 * kPage;
      source.deallocate_pages(memory_of, size - half);
      memory_of = static_cast<char*>(memory_of) + (size - half);
      size = half;
      std::erase_if(held, [](const auto& piece) { return piece.second == 0; });
    }
    REQUIRE(driver->breach() == "");
    REQUIRE(source.used() == driver->held());
  }
  CHECK(pages > 20 * kTotal / kPage);
  for (auto [memory, bytes] : held) source.deallocate_pages(memory, bytes);
  CHECK(driver->held() == 0);
}
