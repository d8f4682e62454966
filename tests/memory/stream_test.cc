// Planners under a device that works later than it is told: bytes of one stream are another's, or
// the source's, only when the work on them is done.
#include "brim/memory/stream.h"

#include <doctest/doctest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "brim/memory/account.h"
#include "brim/memory/arena_planner.h"
#include "brim/memory/caching_planner.h"
#include "brim/memory/out_of_memory.h"
#include "brim/tests/support/memory_script.h"
#include "brim/tests/support/simulated_device.h"

using namespace brim;
using namespace brim::memory;
using brim::testing::SimulatedDevice;
using brim::testing::SimulatedDeviceSource;

namespace {

constexpr int kStreams = 3;

struct Outcome {
  int64_t spoiled = 0;  // buffers whose bytes were not what their stream had written
  int64_t returned_too_early = 0, refused = 0, served = 0, waits = 0, finishes = 0;
};

// A program on several streams that never waits: asks, enqueues a kernel that writes, one that
// reads, and releases while both may still be ahead.
class Program {
 public:
  Program(const MakePlanner& planner, int64_t capacity)
      : device_(std::make_shared<SimulatedDevice>(kStreams, 1)) {
    auto source = std::make_unique<SimulatedDeviceSource>(capacity, device_);
    source_ = source.get();
    account_ = std::make_unique<Account>(Device::cpu(), std::move(source), planner);
    account_->set_checking(false);  // only the device is to find faults here
  }

  Outcome run(int operations) {
    RandomStream random(RandomKey{7});
    for (int i = 0; i < operations; ++i) {
      if (held_.empty() || random.uniform() < 0.52f)
        request(static_cast<int>(random.below(kStreams)),
                static_cast<int64_t>(std::exp(random.uniform(3, 12))));
      else
        release(random.below(held_.size()));
      AccountStats s = account_->stats();
      REQUIRE(s.reserved == s.live + s.cached + s.fragmented);
    }
    while (!held_.empty()) release(held_.size() - 1);
    account_->empty_cache();
    device_->finish_all();
    outcome_.returned_too_early = source_->returned_too_early();
    outcome_.waits = device_->waits;
    outcome_.finishes = device_->finishes;
    return outcome_;
  }

 private:
  struct Held {
    Block block;
    int stream;
    int pattern;
  };

  void request(int stream, int64_t bytes) {
    StreamScope scope(stream);
    try {
      Block block = account_->allocate(bytes, Category::other);
      int pattern = static_cast<int>(++outcome_.served % 251);
      void* data = block.address();
      device_->enqueue(stream, data, block.bytes,
                       [=] { std::memset(data, pattern, static_cast<size_t>(block.bytes)); });
      held_.push_back({block, stream, pattern});
    } catch (const OutOfMemory&) {
      ++outcome_.refused;
    }
  }

  void release(size_t i) {
    std::swap(held_[i], held_.back());
    auto [block, stream, pattern] = held_.back();
    held_.pop_back();
    const auto* data = static_cast<const unsigned char*>(block.address());
    device_->enqueue(stream, data, block.bytes, [this, data, pattern, bytes = block.bytes] {
      for (int64_t j = 0; j < bytes; ++j)
        if (data[j] != pattern) {
          ++outcome_.spoiled;
          return;
        }
    });
    account_->release(block);
  }

  std::shared_ptr<SimulatedDevice> device_;
  SimulatedDeviceSource* source_;
  std::unique_ptr<Account> account_;
  std::vector<Held> held_;
  Outcome outcome_;
};

/// A caching planner that takes all streams for one.
class OneStream final : public Planner {
 public:
  explicit OneStream(Source& source) : Planner(source), inner_(source) {}
  std::string_view name() const override { return "one stream"; }
  Placement place(const Request& request) override {
    Request changed = request;
    changed.stream = 0;
    return inner_.place(changed);
  }
  void release(const Placement& placement) noexcept override { inner_.release(placement); }
  int64_t cached() const override { return inner_.cached(); }
  int64_t fragmented() const override { return inner_.fragmented(); }
  void empty_cache() noexcept override { inner_.empty_cache(); }

 private:
  CachingPlanner inner_;
};

/// Gives bytes back to the source as soon as they are released.
class Hasty final : public Planner {
 public:
  using Planner::Planner;
  std::string_view name() const override { return "hasty"; }
  Placement place(const Request& request) override {
    return {source().allocate(request.bytes), reinterpret_cast<void*>(request.bytes)};
  }
  void release(const Placement& placement) noexcept override {
    source().deallocate(placement.address, reinterpret_cast<intptr_t>(placement.token));
  }
};

}  // namespace

TEST_CASE("the stream of a thread is that of its innermost scope, and its own") {
  CHECK(current_stream() == 0);
  StreamScope outer(2);
  {
    StreamScope inner(5);
    CHECK(current_stream() == 5);
    std::jthread([] { CHECK(current_stream() == 0); });
  }
  CHECK(current_stream() == 2);
}

TEST_CASE("no planner hands bytes to another stream before the work on them is done") {
  for (const char* planner : {"direct", "caching"})
    for (int64_t capacity : {int64_t{1} << 20, int64_t{16} << 20}) {
      CAPTURE(planner);
      CAPTURE(capacity);
      Outcome outcome = Program(planner_named(planner), capacity).run(4000);
      CHECK(outcome.spoiled == 0);
      CHECK(outcome.returned_too_early == 0);
      CHECK(outcome.served > 1000);
      if (capacity < 2 << 20) CHECK(outcome.refused > 0);  // so streams had to share
    }
}

TEST_CASE("the arena planner orders streams too, in its arena and beyond") {
  brim::testing::ToyTraining toy(6);
  auto plan = std::make_shared<Plan>(
      make_plan(brim::testing::record({toy.setup(), toy.step({8}), toy.step({8})})));
  for (int64_t beyond : {int64_t{0}, int64_t{1} << 20}) {
    CAPTURE(beyond);
    Outcome outcome = Program(arena_planner(plan), plan->arena_bytes + beyond).run(4000);
    CHECK(outcome.spoiled == 0);
    CHECK(outcome.returned_too_early == 0);
    CHECK(outcome.served > 100);
    CHECK(outcome.refused > 0);
  }
}

TEST_CASE("the simulated device finds a planner that takes all streams for one") {
  auto make = [](Source& source) { return std::make_unique<OneStream>(source); };
  CHECK(Program(make, 16 << 20).run(4000).spoiled > 0);
}

TEST_CASE("the simulated device finds a planner that returns bytes while they are used") {
  auto make = [](Source& source) { return std::make_unique<Hasty>(source); };
  CHECK(Program(make, 16 << 20).run(4000).returned_too_early > 0);
}

namespace {

// Two streams over a device of 4 MiB.
struct TwoStreams {
  std::shared_ptr<SimulatedDevice> device = std::make_shared<SimulatedDevice>(2, 1);
  Account account{Device::cpu(), std::make_unique<SimulatedDeviceSource>(4 << 20, device),
                  planner_named("caching")};

  Block get(int stream, int64_t kib) {
    StreamScope scope(stream);
    return account.allocate(kib << 10, Category::other);
  }
};

}  // namespace

TEST_CASE("the caching planner keeps free blocks by stream, and waits only when it must share") {
  TwoStreams test;
  Block a = test.get(0, 1024);
  void* first = a.address();
  test.account.release(a);
  Block b = test.get(1, 1024);  // there is room: the block of stream 0 stays its own
  CHECK(b.address() != first);
  Block c = test.get(0, 1024);
  CHECK(c.address() == first);
  CHECK(test.device->waits == 0);

  Block d = test.get(1, 2048);  // 4 MiB are out now
  test.account.release(c);
  Block e = test.get(1, 1024);
  CHECK(e.address() == first);
  CHECK(test.device->waits == 1);
  CHECK(test.device->finishes == 0);
  for (const Block& block : {b, d, e}) test.account.release(block);
  test.account.empty_cache();
  CHECK(test.device->finishes >= 1);
  CHECK(test.account.stats().reserved == 0);
}

TEST_CASE("neighbours of two streams are joined once one stream waits for the other") {
  TwoStreams test;
  Block a = test.get(0, 4096);
  test.account.release(a);
  Block left = test.get(0, 2048), right = test.get(0, 2048);
  test.account.release(left);
  Block again = test.get(1, 2048);  // from stream 0, after a wait
  CHECK(again.address() == left.address());
  CHECK(test.device->waits == 1);
  test.account.release(right);
  test.account.release(again);
  CHECK(test.account.planner_stats().largest_free == 2 << 20);
  Block whole = test.get(0, 4096);
  CHECK(test.device->waits == 2);
  CHECK(whole.address() == a.address());
  test.account.release(whole);
}
