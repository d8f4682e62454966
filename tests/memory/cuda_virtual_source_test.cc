// A GPU's memory, by a driver on the host's whose every call can fail: planners keep their promises
// on it, nothing is lost whatever fails, and free pages serve wherever they lie.
#include "brim/memory/cuda_virtual_source.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <vector>

#include "brim/base/bytes.h"
#include "brim/base/random.h"
#include "brim/memory/account.h"
#include "brim/memory/arena_planner.h"
#include "brim/memory/cuda_source.h"
#include "brim/memory/out_of_memory.h"
#include "brim/tests/support/fake_driver.h"
#include "brim/tests/support/memory_script.h"

using namespace brim;
using namespace brim::memory;
using brim::testing::FakeDriver;
using brim::testing::FakeDriverOptions;
using brim::testing::SimulatedDevice;

namespace {

constexpr int64_t kPage = int64_t{64} << 10, kTotal = 128 * kPage;

enum class Way { virtual_memory, malloc, malloc_in_stream };

std::unique_ptr<Source> make_source(Way way, const std::shared_ptr<FakeDriver>& driver) {
  if (way == Way::virtual_memory) return std::make_unique<CudaVirtualSource>(driver);
  return std::make_unique<CudaSource>(driver,
                                      CudaSourceOptions{.in_stream = way == Way::malloc_in_stream});
}

// An account on a fake GPU of some streams, and kernels that write what is held and read it at its
// end.
class Program {
 public:
  Program(Way way, const MakePlanner& planner, uint64_t seed)
      : random_(RandomKey{seed}),
        device_(std::make_shared<SimulatedDevice>(kStreams, seed)),
        driver_(std::make_shared<FakeDriver>(
            FakeDriverOptions{.total = kTotal, .granularity = kPage, .device = device_})) {
    std::unique_ptr<Source> source = make_source(way, driver_);
    source->set_stream_order(device_);
    source_ = source.get();
    account_ = std::make_unique<Account>(Device::cuda(), std::move(source), planner);
  }
  ~Program() {
    while (!held_.empty()) release(held_.size() - 1);
    device_->finish_all();
    driver_->fail_nth(0);
    driver_->refuse_returns(false);
    account_->empty_cache();
    account_.reset();
    CHECK(driver_->held() == 0);
    CHECK(driver_->breach() == "");
    CHECK(spoiled_ == 0);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void run(int operations) {
    for (int i = 0; i < operations; ++i) {
      const uint64_t choice = random_.below(100);
      if (choice == 0)
        account_->empty_cache();
      else if (held_.empty() || choice < 54)
        request(static_cast<int64_t>(std::exp(random_.uniform(4, 13.5f))));
      else
        release(random_.below(held_.size()));
      check_numbers();
    }
  }

  /// Whether it was served.
  bool request(int64_t bytes) {
    const auto stream = static_cast<int>(random_.below(kStreams));
    StreamScope scope(stream);
    try {
      Block block = account_->allocate(bytes, Category::other);
      const int mark = static_cast<int>(++served % 251);
      void* data = block.address();
      device_->enqueue(stream, data, block.bytes,
                       [=] { std::memset(data, mark, static_cast<size_t>(block.bytes)); });
      held_.push_back({block, stream, mark});
      return true;
    } catch (const OutOfMemory&) {
      ++refused;
    } catch (const DeviceError& error) {
      const std::string text = error.what();
      CHECK_MESSAGE(text.starts_with("cuda: " + driver_->failed_call()), text);
      CHECK_MESSAGE(text.ends_with(" failed: error 999"), text);
      ++failed;
    }
    return false;
  }

  void release(size_t i) {
    std::swap(held_[i], held_.back());
    const auto [block, stream, mark] = held_.back();
    held_.pop_back();
    const auto* data = static_cast<const unsigned char*>(block.address());
    device_->enqueue(stream, data, block.bytes, [this, data, mark = mark, bytes = block.bytes] {
      for (int64_t j = 0; j < bytes; ++j) spoiled_ += data[j] != mark;
    });
    account_->release(block);
  }

  void check_numbers() const {
    const AccountStats s = account_->stats();
    REQUIRE(s.reserved == s.live + s.cached + s.fragmented);
    REQUIRE(driver_->held() == s.reserved + source_->stranded());
    REQUIRE(driver_->held() <= kTotal);
    REQUIRE(driver_->breach() == "");
  }

  /// Of pages that nobody holds a part of.
  int64_t free_bytes() const {
    std::set<uintptr_t> pages;
    account_->for_each_live([&](const LiveBuffer& buffer) {
      const auto begin = reinterpret_cast<uintptr_t>(buffer.address);
      for (uintptr_t page = begin / kPage;
           page * kPage < begin + static_cast<uintptr_t>(buffer.bytes); ++page)
        pages.insert(page);
    });
    return kTotal - static_cast<int64_t>(pages.size()) * kPage;
  }

  FakeDriver& driver() { return *driver_; }
  Account& account() { return *account_; }
  Source& source() { return *source_; }
  size_t held() const { return held_.size(); }

  int64_t served = 0, refused = 0, failed = 0;

 private:
  static constexpr int kStreams = 3;
  struct Held {
    Block block;
    int stream;
    int mark;
  };

  RandomStream random_;
  std::shared_ptr<SimulatedDevice> device_;
  std::shared_ptr<FakeDriver> driver_;
  Source* source_;
  std::unique_ptr<Account> account_;
  std::vector<Held> held_;
  int64_t spoiled_ = 0;
};

const std::vector<Way> kWays{Way::virtual_memory, Way::malloc, Way::malloc_in_stream};

// The arena's for a small training: what these programs ask for is not in its plan.
std::vector<std::pair<std::string, MakePlanner>> all_planners() {
  brim::testing::ToyTraining toy(3);
  auto plan = std::make_shared<Plan>(
      make_plan(brim::testing::record({toy.setup(), toy.step({64, 64, 7})})));
  REQUIRE(plan->arena_bytes < kTotal / 2);
  return {{"direct", planner_named("direct")},
          {"caching", planner_named("caching")},
          {"arena", arena_planner(plan, {.device = Device::cuda()})}};
}

}  // namespace

TEST_CASE("a GPU's memory: planners keep the identity and the values, on every kind of source") {
  for (Way way : kWays)
    for (const char* planner : {"direct", "caching"}) {
      CAPTURE(planner);
      Program program(way, planner_named(planner), 1);
      program.run(3000);
      CHECK(program.served > 300);
      CHECK(program.refused > 0);
      CHECK(program.failed == 0);
    }
}

TEST_CASE(
    "virtual memory: a request is refused only where too few pages are free, wherever they lie") {
  Program program(Way::virtual_memory, planner_named("caching"), 2);
  int64_t several = 0;
  for (int i = 0; i < 300; ++i) {
    program.run(20);
    const int64_t free = program.free_bytes() / kPage * kPage;
    if (free == 0) continue;
    const bool served = program.request(free);
    CHECK(served);
    program.check_numbers();
    if (served) program.release(program.held() - 1);
    several += free >= 4 * kPage;
    CHECK_FALSE(program.request(free + kPage));
  }
  CHECK(several > 100);
}

TEST_CASE("virtual memory: the same requests strand bytes where pages cannot come back alone") {
  // One page goes here, one there; then one request wants most of what they had together.
  auto serves = [](Way way) {
    Program program(way, planner_named("caching"), 3);
    while (program.request(kPage)) {
    }
    for (size_t i = 0; i < 42; ++i) program.release(2 * i);
    return program.request(32 * kPage);
  };
  CHECK(serves(Way::virtual_memory));
  CHECK_FALSE(serves(Way::malloc));
}

TEST_CASE("a GPU's memory: nothing is lost whichever call of the driver fails, under any planner") {
  for (Way way : kWays)
    for (const auto& [name, planner] : all_planners()) {
      CAPTURE(name);
      // With fewer calls for as many requests, more of these.
      const bool calls_often = way == Way::virtual_memory || name == "direct";
      const int operations = calls_often ? 80 : 400;
      int64_t calls = 0;
      {
        Program program(way, planner, 4);
        program.run(operations);
        calls = program.driver().calls();
      }
      REQUIRE(calls > 12);
      for (int error : {cuda::Driver::kOutOfMemory, FakeDriver::kUnknown})
        for (int64_t nth = 1; nth <= calls; ++nth) {
          CAPTURE(error);
          CAPTURE(nth);
          Program program(way, planner, 4);
          program.driver().fail_nth(nth, error);
          program.run(operations);
        }
    }
}

TEST_CASE("a GPU's memory: nothing is lost while others take and give back, under any planner") {
  for (Way way : kWays)
    for (const auto& [name, planner] : all_planners()) {
      CAPTURE(name);
      Program program(way, planner, 8);
      RandomStream random(RandomKey{9});
      for (int i = 0; i < 60; ++i) {
        // As much as is there to take: nobody takes what the program holds.
        const int64_t room = kTotal - program.driver().held();
        const auto pages = static_cast<uint64_t>(room / kPage) + 1;
        program.driver().set_others(static_cast<int64_t>(random.below(pages)) * kPage);
        program.account().set_cap(kTotal);
        program.run(25);
      }
      CHECK(program.refused > 0);
      CHECK(program.failed == 0);
      CHECK(program.served > 100);
    }
}

TEST_CASE("a GPU's memory: the fake driver finds what comes back while a kernel still uses it") {
  for (Way way : kWays) {
    auto device = std::make_shared<SimulatedDevice>(1, 1);
    FakeDriver driver({.total = kTotal, .granularity = kPage, .device = device});
    int values = 0;
    device->enqueue(0, &values, sizeof values, [] {});  // some kernels run at once
    uintptr_t address = 0;
    uint64_t handle = 0;
    if (way == Way::virtual_memory) {
      REQUIRE(driver.reserve_addresses(&address, kPage) == 0);
      REQUIRE(driver.create(&handle, kPage) == 0);
      REQUIRE(driver.map(address, kPage, handle) == 0);
      REQUIRE(driver.allow_access(address, kPage) == 0);
    } else {
      REQUIRE(driver.allocate(&address, kPage) == 0);
    }
    auto* data = reinterpret_cast<char*>(address);
    auto give_back = [&] {
      if (way == Way::virtual_memory) return driver.unmap(address, kPage);
      return way == Way::malloc ? driver.free(address) : driver.free_in_stream(address);
    };
    while (!device->uses(data, kPage)) device->enqueue(0, data, kPage, [=] { *data = 1; });
    CHECK(give_back() != 0);
    CHECK(driver.breach() != "");
    device->finish_all();
    CHECK(give_back() == 0);
    if (way == Way::virtual_memory) CHECK(driver.release(handle) == 0);
    CHECK(driver.held() == 0);
  }
}

TEST_CASE("a GPU's memory: a failure as the source is made is thrown, and leaves nothing") {
  for (Way way : kWays)
    for (int64_t nth = 1; nth <= 3; ++nth) {
      auto driver =
          std::make_shared<FakeDriver>(FakeDriverOptions{.total = kTotal, .granularity = kPage});
      driver->fail_nth(nth);
      std::optional<std::string> text;
      try {
        make_source(way, driver);
      } catch (const DeviceError& error) {
        text = error.what();
      }
      CHECK(text.has_value() == (way == Way::virtual_memory || nth == 1));
      CHECK(driver->held() == 0);
    }
}

TEST_CASE(
    "a GPU's memory: what the driver does not take back counts against the capacity until it "
    "does") {
  for (Way way : kWays) {
    Program program(way, planner_named("direct"), 5);
    for (int i = 0; i < 64; ++i) REQUIRE(program.request(2 * kPage));
    CHECK_FALSE(program.request(kPage));
    program.driver().refuse_returns(true);
    while (program.held() > 32) program.release(program.held() - 1);
    program.check_numbers();
    CHECK(program.account().stats().live == 64 * kPage);
    CHECK(program.source().stranded() == 64 * kPage);
    CHECK_FALSE(program.request(kPage));
    program.driver().refuse_returns(false);
    CHECK(program.request(kPage));
    CHECK(program.source().stranded() == 0);
    program.check_numbers();
  }
}

TEST_CASE("a GPU's memory: what other programs take is refused, and served again when it is back") {
  for (Way way : kWays) {
    Program program(way, planner_named("caching"), 6);
    REQUIRE(program.request(16 * kPage));
    program.driver().set_others(100 * kPage);
    program.run(300);
    CHECK(program.refused > 0);
    CHECK(program.failed == 0);
    CHECK_FALSE(program.request(64 * kPage));
    while (program.held() > 0) program.release(program.held() - 1);
    CHECK(program.account().cap() == kTotal - 100 * kPage);
    program.driver().set_others(0);
    CHECK_FALSE(program.request(100 * kPage));  // nobody said that it is back
    program.account().set_cap(kTotal);
    CHECK(program.request(100 * kPage));
  }
}
