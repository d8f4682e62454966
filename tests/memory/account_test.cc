#include "brim/memory/account.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "brim/base/error.h"
#include "brim/base/random.h"
#include "brim/memory/out_of_memory.h"
#include "brim/memory/summary.h"

using namespace brim;
using namespace brim::memory;

namespace {

constexpr int64_t kMiB = 1 << 20;

void check_identity(const Account& account) {
  AccountStats s = account.stats();
  REQUIRE(s.reserved == s.live + s.cached + s.fragmented);
  REQUIRE(s.cached >= 0);
  REQUIRE(s.fragmented >= 0);
  int64_t by_category = 0;
  for (int64_t bytes : s.by_category) by_category += bytes;
  REQUIRE(by_category == s.live);
}

bool overlaps(const Block& a, const Block& b) {
  auto *p = static_cast<char*>(a.address()), *q = static_cast<char*>(b.address());
  return p < q + b.bytes && q < p + a.bytes;
}

}  // namespace

TEST_CASE("the error of a full device carries the numbers") {
  auto account = capped_host_account("direct", 1000 * 64);
  Block held = account->allocate(600 * 64, Category::parameters);
  try {
    account->allocate(500 * 64 - 5, Category::activations);
    FAIL("there was no room");
  } catch (const OutOfMemory& error) {
    const Shortage& s = error.shortage();
    CHECK(s.requested == 500 * 64);
    CHECK(s.total == 1000 * 64);
    CHECK(s.live == 600 * 64);
    CHECK(s.cached == 0);
    CHECK(s.free == 400 * 64);
    CHECK(s.by_category[static_cast<size_t>(Category::parameters)] == 600 * 64);
    CHECK(!s.injected);
    std::string text = error.what();
    CHECK(text.find("out of memory: asked cpu for 31.2 KiB (32000 bytes) of activations") == 0);
    CHECK(text.find("parameters 37.5 KiB") != std::string::npos);
  }
  account->release(held);
}

TEST_CASE("a refused request leaves nothing behind") {
  for (const char* planner : {"direct", "caching"}) {
    auto account = capped_host_account(planner, 8 * kMiB);
    Block held = account->allocate(3 * kMiB, Category::other);
    // In the cache; given back to the source before a request is refused.
    account->release(account->allocate(4 * kMiB, Category::other));
    AccountStats before = account->stats();
    CHECK_THROWS_AS(account->allocate(6 * kMiB, Category::other), OutOfMemory);
    AccountStats after = account->stats();
    CHECK(after.live == before.live);
    CHECK(after.reserved == 3 * kMiB);
    CHECK(after.cached == 0);
    account->release(held);
  }
}

TEST_CASE("the nth request fails, once, and says that the fault was injected") {
  auto account = capped_host_account("caching");
  account->fail_nth(3);
  Block a = account->allocate(64, Category::other), b = account->allocate(64, Category::other);
  try {
    account->allocate(64, Category::other);
    FAIL("the third request should fail");
  } catch (const OutOfMemory& error) {
    CHECK(error.shortage().injected);
  }
  Block c = account->allocate(64, Category::other);
  CHECK(account->stats().requests == 4);
  for (const Block& block : {a, b, c}) account->release(block);
}

TEST_CASE("peaks stay, with the categories of their moment, until they are reset") {
  auto account = capped_host_account("direct");
  Block a = account->allocate(1000, Category::parameters);  // 1024 with rounding
  Block b = account->allocate(64, Category::scratch);
  account->release(b);
  CHECK(account->stats().live == 1024);
  CHECK(account->stats().peak_live == 1088);
  CHECK(account->stats().by_category_at_peak[static_cast<size_t>(Category::scratch)] == 64);
  account->reset_peak();
  CHECK(account->stats().peak_live == 1024);
  CHECK(account->stats().peak_reserved == 1024);
  account->recategorize(a, Category::optimizer);
  CHECK(account->stats().by_category[static_cast<size_t>(Category::optimizer)] == 1024);
  account->release(a);
  check_identity(*account);
}

TEST_CASE("a cap below what is reserved only refuses what would add to it") {
  auto account = capped_host_account("caching");
  Block a = account->allocate(4 * kMiB, Category::other);
  account->set_cap(1 * kMiB);
  CHECK_THROWS_AS(account->allocate(4 * kMiB, Category::other), OutOfMemory);
  account->release(a);
  Block b = account->allocate(4 * kMiB, Category::other);  // from the cache: adds nothing
  account->release(b);
}

TEST_CASE("the null source gives distinct addresses and keeps to its capacity") {
  Account account(Device::meta(), std::make_unique<NullSource>(1 << 20), planner_named("direct"));
  Block a = account.allocate(1 << 19, Category::other),
        b = account.allocate(1 << 19, Category::other);
  CHECK(!overlaps(a, b));
  CHECK_THROWS_AS(account.allocate(1, Category::other), OutOfMemory);
  account.release(a);
  account.release(b);
}

TEST_CASE("a planner of one's own inherits categories, caps and faults") {
  // Hands out pieces of one block, never reuses them: the simplest planner there is.
  enum : int64_t { kBytes = 1 << 16 };
  class Bump final : public Planner {
   public:
    explicit Bump(Source& source) : Planner(source), base_(source.allocate(kBytes)) {}
    ~Bump() override { source().deallocate(base_, kBytes); }
    std::string_view name() const override { return "bump"; }
    Placement place(const Request& request) override {
      if (used_ + request.bytes > kBytes) return {};
      used_ += request.bytes;
      live_ += request.bytes;
      return {static_cast<char*>(base_) + used_ - request.bytes,
              reinterpret_cast<void*>(request.bytes)};
    }
    void release(const Placement& placement) noexcept override {
      live_ -= reinterpret_cast<intptr_t>(placement.token);
    }
    int64_t cached() const override { return kBytes - live_; }

   private:
    void* base_;
    int64_t used_ = 0, live_ = 0;
  };
  Account account(Device::cpu(), std::make_unique<HostSource>(),
                  [](Source& source) { return std::make_unique<Bump>(source); });
  Block a = account.allocate(100, Category::input);
  check_identity(account);
  CHECK(account.stats().by_category[static_cast<size_t>(Category::input)] == 128);
  account.fail_nth(1);
  CHECK_THROWS_AS(account.allocate(1, Category::other), OutOfMemory);
  CHECK_THROWS_AS(account.allocate(1 << 17, Category::other), OutOfMemory);
  account.release(a);
  check_identity(account);
}

TEST_CASE("a planner whose numbers do not add up is found out, wherever it happens") {
  class Liar final : public Planner {
   public:
    using Planner::Planner;
    std::string_view name() const override { return "liar"; }
    Placement place(const Request& request) override {
      return {source().allocate(request.bytes), reinterpret_cast<void*>(request.bytes)};
    }
    void release(const Placement& placement) noexcept override {
      source().deallocate(placement.address, reinterpret_cast<intptr_t>(placement.token));
    }
    int64_t cached() const override { return lie; }
    int64_t lie = 0;
  };
  Liar* liar = nullptr;
  Account account(Device::cpu(), std::make_unique<HostSource>(1 << 20), [&](Source& source) {
    auto planner = std::make_unique<Liar>(source);
    liar = planner.get();
    return planner;
  });
  Block a = account.allocate(64, Category::other), b = account.allocate(64, Category::other);
  liar->lie = 64;
  CHECK_THROWS_AS(account.empty_cache(), InternalError);
  CHECK_THROWS_AS(account.allocate(1 << 21, Category::other), InternalError);
  account.release(a);
  liar->lie = 0;  // too late: the release was wrong
  CHECK_THROWS_AS(account.allocate(64, Category::other), InternalError);
  CHECK(account.stats().live == 64);  // and what it was given went back
  account.release(b);
}

namespace {

// Takes one piece of the source, and places every request where a test says.
class Puppet final : public Planner {
 public:
  enum : int64_t { kBytes = 4096 };
  explicit Puppet(Source& source)
      : Planner(source), base_(static_cast<char*>(source.allocate(kBytes))) {}
  ~Puppet() override { source().deallocate(base_, kBytes); }
  std::string_view name() const override { return "puppet"; }
  Placement place(const Request& request) override {
    held_ += request.bytes;
    return {base_ + next, reinterpret_cast<void*>(request.bytes)};
  }
  void release(const Placement& placement) noexcept override {
    held_ -= reinterpret_cast<intptr_t>(placement.token);
  }
  int64_t cached() const override { return kBytes - held_ + lie; }
  void begin_step() override { lie = lie_at_begin; }
  void end_step() noexcept override { lie = 0; }

  int64_t next = 0, lie = 0, lie_at_begin = 0;

 private:
  char* base_;
  int64_t held_ = 0;
};

struct PuppetAccount {
  Puppet* planner = nullptr;
  Account account{Device::cpu(), std::make_unique<HostSource>(1 << 20), [this](Source& source) {
                    auto made = std::make_unique<Puppet>(source);
                    planner = made.get();
                    return made;
                  }};
};

}  // namespace

TEST_CASE("bytes that are handed out twice are found, with both buffers, where checking is on") {
  PuppetAccount puppet;
  Account& account = puppet.account;
  puppet.planner->next = 1024;
  Block a = account.allocate(512, Category::parameters);
  account.set_checking(false);
  account.set_checking(true);  // knows what was held before
  static const std::string kModule = "layer1.0";
  SiteScope site({.op = "conv2d", .module = &kModule});
  for (int64_t next : {1024, 1024 - 64, 1024 + 448}) {
    puppet.planner->next = next;
    CHECK_THROWS_WITH_AS(account.allocate(128, Category::gradients),
                         doctest::Contains("(128 bytes of gradients, conv2d in layer1.0) at 0x"),
                         InternalError);
    CHECK_THROWS_WITH_AS(account.allocate(128, Category::gradients),
                         doctest::Contains("over buffer 1 (512 bytes of parameters) at 0x"),
                         InternalError);
    CHECK(account.stats().live == 512);
  }
  puppet.planner->next = 1024 - 128;
  Block below = account.allocate(128, Category::other);
  puppet.planner->next = 1024 + 512;
  Block above = account.allocate(128, Category::other);
  account.set_checking(false);  // then it is the planner's word
  puppet.planner->next = 1024;
  Block twice = account.allocate(64, Category::other);
  for (const Block& block : {a, below, above, twice}) account.release(block);
  check_identity(account);
}

TEST_CASE("an address off its boundary is refused, also where checking is off") {
  PuppetAccount puppet;
  puppet.account.set_checking(false);
  puppet.planner->next = 32;
  CHECK_THROWS_WITH_AS(puppet.account.allocate(64, Category::other),
                       doctest::Contains("the puppet planner placed 64 bytes at 0x"),
                       InternalError);
  CHECK(puppet.account.stats().live == 0);
  check_identity(puppet.account);
}

TEST_CASE("a block that is released twice changes nothing, and the next request says so") {
  auto account = capped_host_account("caching");
  account->set_checking(true);
  CHECK(account->checking());
  Block a = account->allocate(64, Category::other), b = account->allocate(64, Category::other);
  account->release(a);
  account->release(a);
  CHECK(account->stats().live == 64);
  check_identity(*account);
  CHECK_THROWS_WITH_AS(account->allocate(64, Category::other),
                       doctest::Contains("a block that was released was held"), InternalError);
  account->release(b);
  CHECK(account->stats().live == 0);
}

TEST_CASE("hooks are held to the identity too") {
  PuppetAccount puppet;
  puppet.planner->lie_at_begin = 64;
  CHECK_THROWS_AS(puppet.account.begin_step(), InternalError);
  CHECK(puppet.planner->lie == 0);  // what had begun was ended
  puppet.planner->lie_at_begin = 0;
  puppet.account.begin_step();
  puppet.account.end_step();
  check_identity(puppet.account);
}

TEST_CASE("the peak of reserved bytes is that of any moment, also within one request") {
  // Takes twice what it needs for as long as it looks.
  class Greedy final : public Planner {
   public:
    using Planner::Planner;
    std::string_view name() const override { return "greedy"; }
    Placement place(const Request& request) override {
      void* other = source().allocate(request.bytes);
      void* address = source().allocate(request.bytes);
      source().deallocate(other, request.bytes);
      return {address, reinterpret_cast<void*>(request.bytes)};
    }
    void release(const Placement& placement) noexcept override {
      source().deallocate(placement.address, reinterpret_cast<intptr_t>(placement.token));
    }
  };
  Account account(Device::cpu(), std::make_unique<HostSource>(),
                  [](Source& source) { return std::make_unique<Greedy>(source); });
  Block a = account.allocate(1024, Category::other);
  CHECK(account.stats().reserved == 1024);
  CHECK(account.stats().peak_reserved == 2048);
  account.reset_peak();
  CHECK(account.stats().peak_reserved == 1024);
  account.release(a);
}

TEST_CASE("a recorder that throws leaves nothing behind") {
  struct Thrower final : Recorder {
    void allocated(const Block&) override { throw std::runtime_error("full"); }
    void released(const Block&) noexcept override {}
  } thrower;
  auto account = capped_host_account("direct");
  account->set_recorder(&thrower);
  CHECK_THROWS_AS(account->allocate(64, Category::other), std::runtime_error);
  CHECK(account->stats().live == 0);
  CHECK(account->stats().reserved == 0);
  CHECK(account->stats().peak_live == 0);
}

TEST_CASE("an unknown planner is refused with the nearest name") {
  CHECK_THROWS_WITH_AS(
      planner_named("chaching"),
      "planner: expected direct or caching, got 'chaching'; did you mean 'caching'?", ValueError);
}

TEST_CASE("threads share an account without losing a byte") {
  auto account = capped_host_account("caching");
  auto work = [&](uint64_t seed) {
    RandomStream random(RandomKey{seed});
    std::vector<Block> held;
    for (int i = 0; i < 2000; ++i) {
      held.push_back(
          account->allocate(static_cast<int64_t>(random.below(100000)) + 1, Category::other));
      if (held.size() > 10) {
        account->release(held.front());
        held.erase(held.begin());
      }
    }
    for (const Block& block : held) account->release(block);
  };
  { std::jthread a(work, 1), b(work, 2), c(work, 3); }
  CHECK(account->stats().live == 0);
  check_identity(*account);
}

TEST_CASE("the summary shows what is held") {
  auto account = capped_host_account("direct");
  AccountScope scope(account);
  Block a = account->allocate(1 << 20, Category::gradients);
  std::string text = memory_summary(Device::cpu());
  CHECK(text.find("gradients") != std::string::npos);
  CHECK(text.find("1 MiB") != std::string::npos);
  CHECK(text.find("\n  process ") != std::string::npos);
  account->release(a);
}
