// Moves between planners: what an account holds keeps its values and what is noted of it, whatever
// fails on the way.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "brim/base/error.h"
#include "brim/memory/account.h"
#include "brim/memory/arena_planner.h"
#include "brim/memory/caching_planner.h"
#include "brim/memory/out_of_memory.h"
#include "brim/tests/support/memory_script.h"
#include "brim/tests/support/simulated_device.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::testing;

namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kMany = 1000;  // refusals, and more than there are requests

/// Host memory that refuses requests and copies as it is told.
class FaultySource final : public Source {
 public:
  FaultySource() : Source(64 * kMiB) {}

  int64_t refuse_from = 0, refusals = 0;  ///< the request, counted from 1, and how many follow it
  int64_t takes = 0;
  bool copies_out = true, copies_in = true;

  void copy_to_host(void* to, const void* from, int64_t bytes) override {
    expect<DeviceError>(copies_out, "faulty source", "does not copy out");
    Source::copy_to_host(to, from, bytes);
  }
  void copy_from_host(void* to, const void* from, int64_t bytes) override {
    expect<DeviceError>(copies_in, "faulty source", "does not copy in");
    Source::copy_from_host(to, from, bytes);
  }

 private:
  void* take(int64_t bytes) override {
    ++takes;
    if (takes >= refuse_from && takes < refuse_from + refusals) return nullptr;
    return std::aligned_alloc(static_cast<size_t>(kAlignment), static_cast<size_t>(bytes));
  }
  void give_back(void* address, int64_t) noexcept override { std::free(address); }
};

/// An account with some blocks of different sizes, whose bytes differ, some of them released.
class Holder {
 public:
  explicit Holder(const MakePlanner& make_planner,
                  std::unique_ptr<Source> source = std::make_unique<HostSource>(64 * kMiB))
      : account(Device::cpu(), std::move(source), make_planner) {
    account.set_checking(true);
    for (int64_t i = 0; i < 24; ++i) hold(i % 6 == 0 ? i * 50'000 + 64 : i * 1000 + 1);
    for (size_t i = 20; i > 0; i -= 4) release(i);
  }
  ~Holder() {
    while (!blocks.empty()) release(blocks.size() - 1);
  }

  void hold(int64_t bytes) {
    auto category = static_cast<Category>(blocks.size() % kCategories);
    SiteScope site({.op = "held", .line = static_cast<uint32_t>(bytes)});
    BufferShape shape{.sizes = {bytes}, .dims = 1, .dtype = "uint8"};
    Block block = account.allocate(bytes, category, shape);
    std::memset(block.address(), mark(block), static_cast<size_t>(block.bytes));
    blocks.push_back(block);
  }
  void release(size_t i) {
    account.release(blocks[i]);
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(i));
  }
  bool values_are_there() const {
    for (const Block& block : blocks) {
      const auto* bytes = static_cast<const unsigned char*>(block.address());
      for (int64_t i = 0; i < block.bytes; ++i)
        if (bytes[i] != mark(block)) return false;
    }
    return true;
  }
  /// All that is noted of what is held, in order, but for the addresses.
  std::vector<std::string> notes() const {
    std::vector<std::string> all;
    account.for_each_live([&](const LiveBuffer& buffer) {
      all.push_back(std::to_string(buffer.id) + to_string(buffer) + " on " +
                    std::to_string(buffer.stream) + ":" + std::to_string(buffer.site.line));
    });
    return all;
  }
  bool adds_up() const {
    AccountStats s = account.stats();
    return s.reserved == s.live + s.cached + s.fragmented;
  }

  Account account;
  std::vector<Block> blocks;

 private:
  static int mark(const Block& block) { return static_cast<int>(block.id * 37 % 251); }
};

/// One that has a place for everything that a Holder holds, and one more.
std::shared_ptr<const Plan> plan_for(const Holder& holder) {
  auto plan = std::make_shared<Plan>(make_plan({}));
  std::map<int64_t, int64_t> counts{{4096, 1}};
  for (const Block& block : holder.blocks) ++counts[block.bytes];
  for (auto [bytes, count] : counts) {
    plan->kept.push_back({.bytes = bytes, .count = count, .offset = plan->kept_bytes});
    plan->kept_bytes += bytes * count;
  }
  plan->arena_bytes = plan->kept_bytes;
  return plan;
}

}  // namespace

TEST_CASE("what is held keeps its values and its notes from planner to planner") {
  Holder holder(planner_named("direct"));
  const auto notes = holder.notes();
  const AccountStats before = holder.account.stats();
  auto plan = plan_for(holder);
  const std::vector<std::pair<std::string, MakePlanner>> planners{
      {"caching", planner_named("caching")}, {"arena", arena_planner(plan)},
      {"direct", planner_named("direct")},   {"direct", planner_named("direct")},
      {"arena", arena_planner(plan)},        {"caching", caching_planner({.max_split = 2 * kMiB})}};
  for (const auto& [name, planner] : planners) {
    CAPTURE(name);
    holder.account.replan(planner);
    CHECK(holder.account.planner_name() == name);
    CHECK(holder.values_are_there());
    CHECK(holder.notes() == notes);
    CHECK(holder.adds_up());
    AccountStats now = holder.account.stats();
    CHECK(now.live == before.live);
    CHECK(now.by_category == before.by_category);
    CHECK(now.peak_live == before.peak_live);
    CHECK(now.requests == before.requests);
    CHECK(now.mismatches == 0);
    if (name == "direct") CHECK(now.reserved == now.live);
    if (name == "arena") CHECK(now.reserved == plan->arena_bytes);
  }
}

TEST_CASE("the account goes on after a move as if nothing had been: requests, releases, checks") {
  Holder holder(planner_named("caching"));
  const uint64_t last = holder.blocks.back().id;
  holder.account.replan(planner_named("direct"));
  holder.hold(5000);
  CHECK(holder.blocks.back().id > last);
  holder.release(0);
  holder.account.replan(planner_named("caching"));
  CHECK(holder.values_are_there());
  Block gone = holder.blocks.back();
  holder.release(holder.blocks.size() - 1);
  holder.hold(5000);  // the note of the one before serves again
  holder.account.release(gone);
  CHECK_THROWS_WITH_AS(holder.account.allocate(64, Category::other),
                       doctest::Contains("a block that was released was held"), InternalError);
  CHECK(holder.values_are_there());
}

TEST_CASE("an account that holds nothing moves, too") {
  Account account(Device::cpu(), std::make_unique<HostSource>(), planner_named("caching"));
  account.release(account.allocate(kMiB, Category::other));
  CHECK(account.stats().reserved > 0);
  account.replan(planner_named("direct"));
  CHECK(account.stats().reserved == 0);
}

TEST_CASE("a device without bytes moves more than any machine holds") {
  Account account(Device::meta(), std::make_unique<NullSource>(), planner_named("direct"));
  Block huge = account.allocate(int64_t{1} << 50, Category::parameters);
  account.replan(planner_named("caching"));
  CHECK(account.stats().live == int64_t{1} << 50);
  CHECK(account.planner_name() == "caching");
  account.release(huge);
}

TEST_CASE("a limit below what is reserved is enough for a planner that fits in") {
  Holder holder(planner_named("caching"));
  Account& account = holder.account;
  account.release(account.allocate(16 * kMiB, Category::activations));
  const int64_t reserved = account.stats().reserved, live = account.stats().live;
  REQUIRE(reserved > live + 16 * kMiB);
  account.set_cap(live);
  account.reset_peak();
  account.replan(planner_named("direct"));
  CHECK(account.stats().reserved == live);
  CHECK(account.stats().peak_reserved == reserved);  // not both at once
  CHECK(account.cap() == live);
  CHECK(holder.values_are_there());
  account.set_cap(64 * kMiB);
  account.reset_peak();
  account.replan(planner_named("caching"));
  CHECK(account.stats().peak_reserved == account.stats().reserved);
}

TEST_CASE("within a step or a section nothing moves") {
  Holder holder(planner_named("direct"));
  Account& account = holder.account;
  const void* address = holder.blocks.front().address();
  auto is_refused = [&](const char* text) {
    CHECK_THROWS_WITH_AS(account.replan(planner_named("caching")), doctest::Contains(text),
                         ValueError);
    CHECK(account.planner_name() == "direct");
    CHECK(holder.blocks.front().address() == address);
  };
  account.begin_step();
  is_refused("replan: expected to be between steps and sections, 1 steps and 0 sections run");
  account.begin_section({SectionKind::first_micro_step, 8});
  is_refused("1 steps and 1 sections run");
  account.end_section();
  account.end_step();
  account.begin_section({SectionKind::evaluation, 8});
  is_refused("0 steps and 1 sections run");
  account.end_section();
  account.replan(planner_named("caching"));
  CHECK(holder.values_are_there());
}

TEST_CASE("a plan that does not fit is refused, and the planner before goes on") {
  Holder holder(planner_named("caching"));
  auto plan = std::make_shared<Plan>(*plan_for(holder));
  plan->arena_bytes = 65 * kMiB;
  try {
    holder.account.replan(arena_planner(plan));
    FAIL("it does not fit");
  } catch (const OutOfMemory& error) {
    CHECK(error.shortage().requested == 65 * kMiB);
    CHECK(error.shortage().total == 64 * kMiB);
  }
  CHECK(holder.account.planner_name() == "caching");
  CHECK(holder.values_are_there());
  holder.hold(100);
  CHECK(holder.adds_up());
}

TEST_CASE("below the live bytes nothing fits: they are held all the same, and nothing more") {
  for (bool from_arena : {false, true}) {
    Holder holder(planner_named("caching"));
    Account& account = holder.account;
    if (from_arena) account.replan(arena_planner(plan_for(holder)));
    const int64_t live = account.stats().live;
    account.set_cap(live / 2);
    try {
      account.replan(planner_named("caching"));
      FAIL("it does not fit");
    } catch (const OutOfMemory& error) {
      CHECK(error.shortage().total == live / 2);
      CHECK(error.shortage().live == live);
      CHECK(error.shortage().requested > 0);
      CHECK(std::string(error.shortage().site.op) == "held");
    }
    CHECK(account.planner_name() == "direct");
    CHECK(account.stats().reserved == live);
    CHECK(account.cap() == live / 2);
    CHECK(holder.values_are_there());
    CHECK_THROWS_AS(account.allocate(64, Category::other), OutOfMemory);
    account.set_cap(64 * kMiB);
    account.replan(planner_named("caching"));
    CHECK(holder.values_are_there());
  }
}

TEST_CASE(
    "whatever request of a move is refused, once, some times or to the end, what is held is "
    "there") {
  using Planners = std::pair<std::string, std::string>;
  int64_t moved = 0, as_before = 0, direct = 0, lost = 0;
  for (const auto& [from, to] :
       {Planners{"caching", "direct"}, {"direct", "caching"}, {"caching", "arena"}})
    for (int64_t refusals : {int64_t{1}, int64_t{2}, int64_t{5}, int64_t{6}, kMany})
      for (int64_t nth = 1;; ++nth) {
        CAPTURE(from);
        CAPTURE(to);
        CAPTURE(refusals);
        CAPTURE(nth);
        auto owned = std::make_unique<FaultySource>();
        FaultySource& source = *owned;
        Holder holder(planner_named(from), std::move(owned));
        Account& account = holder.account;
        const auto notes = holder.notes();
        const int64_t live = account.stats().live;
        source.takes = 0;
        source.refuse_from = nth;
        source.refusals = refusals;
        MakePlanner planner = to == "arena" ? arena_planner(plan_for(holder)) : planner_named(to);
        bool done = false, gone = false;
        try {
          account.replan(planner);
          done = true;
        } catch (const OutOfMemory&) {
          (account.planner_name() == from ? as_before : direct) += 1;
        } catch (const DeviceError& error) {
          CHECK(std::string(error.what()).find("no longer gives") != std::string::npos);
          gone = true;
        }
        const bool struck = source.takes >= nth;
        source.refusals = 0;
        REQUIRE(holder.notes() == notes);
        REQUIRE(account.stats().live == live);
        if (gone) {
          ++lost;
          REQUIRE(refusals >= 3);  // a planner, the one before and the last resort
          REQUIRE(source.used() == 0);
          REQUIRE_THROWS_AS(account.allocate(64, Category::other), InternalError);
        } else {
          REQUIRE(holder.values_are_there());
          REQUIRE(holder.adds_up());
          REQUIRE((done ? account.planner_name() == to
                        : account.planner_name() == from || account.planner_name() == "direct"));
          account.replan(planner);
          REQUIRE(holder.values_are_there());
          moved += done ? 1 : 0;
        }
        if (!struck) break;
      }
  // Every way out was taken.
  CHECK(moved > 0);
  CHECK(as_before > 0);
  CHECK(direct > 0);
  CHECK(lost > 0);
}

TEST_CASE("a device that does not copy its bytes out keeps them where they are") {
  auto owned = std::make_unique<FaultySource>();
  FaultySource& source = *owned;
  Holder holder(planner_named("caching"), std::move(owned));
  source.copies_out = false;
  const void* address = holder.blocks.front().address();
  CHECK_THROWS_AS(holder.account.replan(planner_named("direct")), DeviceError);
  CHECK(holder.account.planner_name() == "caching");
  CHECK(holder.blocks.front().address() == address);
  CHECK(holder.values_are_there());
  source.copies_out = true;
  source.copies_in = false;  // then they are lost, and the error says so
  CHECK_THROWS_WITH_AS(holder.account.replan(planner_named("direct")),
                       doctest::Contains("does not copy in"), DeviceError);
  CHECK(holder.adds_up());
}

TEST_CASE("a planner that places what it is given badly gets nothing, in every build") {
  struct Bad final : Planner {
    Bad(Source& source, int64_t step) : Planner(source), step_(step) {
      base_ = static_cast<char*>(source.allocate(kMiB));
    }
    ~Bad() override { source().deallocate(base_, kMiB); }
    std::string_view name() const override { return "bad"; }
    Placement place(const Request& request) override {
      live_ += request.bytes;
      return {base_ + step_ * placed_++, reinterpret_cast<void*>(request.bytes)};
    }
    void release(const Placement& placement) noexcept override {
      live_ -= reinterpret_cast<intptr_t>(placement.token);
    }
    int64_t cached() const override { return kMiB - live_; }
    char* base_;
    int64_t step_, placed_ = 0, live_ = 0;
  };
  Holder holder(planner_named("caching"));
  holder.account.set_checking(false);
  auto text = [&](int64_t step) -> std::string {
    try {
      holder.account.replan([step](Source& source) { return std::make_unique<Bad>(source, step); });
      return "";
    } catch (const InternalError& error) {
      return error.what();
    }
  };
  CHECK(text(64).find("the bad planner moved buffer ") != std::string::npos);
  CHECK(text(64).find(", over another") != std::string::npos);
  CHECK(text(16 * 1024 + 8).find(", off a 64-byte boundary") != std::string::npos);
  CHECK(holder.account.planner_name() == "caching");
  CHECK(holder.values_are_there());
  CHECK(holder.adds_up());
  CHECK_THROWS_AS(holder.account.replan([](Source&) { return std::unique_ptr<Planner>(); }),
                  InternalError);
  CHECK(holder.values_are_there());
}

TEST_CASE("work that is under way is done before its bytes move") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    auto device = std::make_shared<SimulatedDevice>(3, seed);
    auto owned = std::make_unique<SimulatedDeviceSource>(64 * kMiB, device);
    SimulatedDeviceSource& source = *owned;
    Account account(Device::cpu(), std::move(owned), planner_named("caching"));
    std::vector<Block> blocks;
    for (int i = 0; i < 12; ++i) {
      StreamScope stream(i % 3);
      Block block = account.allocate(1000 * (i + 1), Category::parameters);
      auto size = static_cast<size_t>(block.bytes);
      void* data = block.address();
      device->enqueue(i % 3, data, block.bytes, [=] { std::memset(data, i, size); });
      blocks.push_back(block);
    }
    account.replan(planner_named(seed % 2 == 0 ? "caching" : "direct"));
    CHECK(source.returned_too_early() == 0);
    for (int i = 0; i < 12; ++i) {
      const auto* bytes = static_cast<const char*>(blocks[static_cast<size_t>(i)].address());
      CHECK((bytes[0] == i && bytes[1000 * (i + 1) - 1] == i));
      account.release(blocks[static_cast<size_t>(i)]);
    }
  }
}

// ---- To and from a plan

namespace {

/// Makes arena planners and knows the last one.
struct KnownArena {
  std::shared_ptr<const Plan> plan;
  ArenaPlanner* made = nullptr;

  MakePlanner maker() {
    return [this](Source& source) {
      auto planner = std::make_unique<ArenaPlanner>(source, plan);
      made = planner.get();
      return planner;
    };
  }
  int64_t kept_buffers(const Account& account) const {
    int64_t count = 0;
    account.for_each_live([&](const LiveBuffer& buffer) {
      int64_t offset = made->offset_of({buffer.address});
      count += 0 <= offset && offset + buffer.bytes <= plan->kept_bytes ? 1 : 0;
    });
    return count;
  }
};

KnownArena arena_of(const std::vector<int64_t>& parts) {
  ToyTraining toy(5);
  return {plan_of({toy.setup(), toy.step(parts), toy.step(parts), toy.evaluation(16)})};
}

}  // namespace

TEST_CASE("midway to a plan: state is in its kept places, and the steps follow the plan") {
  KnownArena arena = arena_of({16});
  for (const char* before : {"direct", "caching"}) {
    auto account = capped_host_account(before);
    account->set_checking(true);
    ScriptRunner runner(account);  // compares bytes as they are dropped
    ToyTraining toy(5);
    runner.run(toy.setup());
    runner.run(toy.step({64}));
    runner.run(toy.step({64}));
    account->set_cap(arena.plan->arena_bytes);
    account->replan(arena.maker());
    CHECK(account->stats().mismatches == 0);
    CHECK(arena.kept_buffers(*account) == runner.held());
    account->reset_peak();
    for (int i = 0; i < 3; ++i) runner.run(toy.step({16}));
    runner.run(toy.evaluation(16));
    CHECK(account->stats().mismatches == 0);
    CHECK(account->mismatch_report() == "");
    CHECK(account->stats().peak_reserved == arena.plan->arena_bytes);
  }
}

TEST_CASE("from plan to plan, smaller and larger, as often as one likes") {
  KnownArena small = arena_of({8, 8}), large = arena_of({64});
  auto account = account_under(large.plan, large.plan->arena_bytes);
  ScriptRunner runner(account);
  ToyTraining toy(5);
  runner.run(toy.setup());
  for (int i = 0; i < 3; ++i) {
    runner.run(toy.step({64}));
    account->set_cap(small.plan->arena_bytes);
    account->replan(small.maker());
    CHECK(account->stats().reserved == small.plan->arena_bytes);
    runner.run(toy.step({8, 8}));
    account->set_cap(large.plan->arena_bytes);
    account->replan(large.maker());
    CHECK(account->stats().reserved == large.plan->arena_bytes);
  }
  CHECK(account->stats().mismatches == 0);
  CHECK(account->stats().peak_reserved == large.plan->arena_bytes);
}

TEST_CASE("a tensor that someone keeps is not in the plan, and moves as any that is not") {
  KnownArena arena = arena_of({16});
  auto account = capped_host_account("caching");
  account->set_checking(true);
  ScriptRunner runner(account);
  ToyTraining toy(5);
  runner.run(toy.setup());
  runner.run({{.buffer = 1000, .bytes = 12'345}});
  account->replan(arena.maker());
  CHECK(account->stats().mismatches == 1);
  CHECK(arena.kept_buffers(*account) == runner.held() - 1);
  CHECK(account->stats().reserved > arena.plan->arena_bytes);
  runner.run(toy.step({16}));
  runner.drop(1000);
  runner.run(toy.step({16}));
  CHECK(account->stats().mismatches == 1);
}

TEST_CASE("mismatches add up over planners; a move that fails adds none") {
  KnownArena arena = arena_of({16});
  auto account = account_under(arena.plan);
  ScriptRunner runner(account);
  ToyTraining toy(5);
  runner.run(toy.setup());
  runner.run(toy.step({24}));  // not what was rehearsed
  const int64_t first = account->stats().mismatches;
  REQUIRE(first > 0);
  Block stray = account->allocate(77, Category::other);
  const int64_t second = account->stats().mismatches;
  REQUIRE(second == first + 1);

  auto too_large = std::make_shared<Plan>(*arena.plan);
  too_large->arena_bytes = Source::kUnlimited / 4 / kAlignment * kAlignment;
  CHECK_THROWS_AS(account->replan(arena_planner(too_large)), OutOfMemory);
  CHECK(account->planner_name() == "arena");
  CHECK(account->stats().mismatches == second);

  account->replan(arena.maker());
  CHECK(account->stats().mismatches == second + 1);  // the stray, again
  account->release(stray);
  account->replan(planner_named("caching"));
  runner.run(toy.step({24}));
  CHECK(account->stats().mismatches == second + 1);
  CHECK(account->mismatch_report() == "");
}

TEST_CASE("a recording goes on through a move as if there had been none") {
  auto record_with = [](bool moves) {
    auto account = capped_host_account("direct");
    BufferRecorder recorder(account);
    ScriptRunner runner(account);
    ToyTraining toy(5);
    runner.run(toy.setup());
    if (moves) account->replan(planner_named("caching"));
    runner.run(toy.step({16}));
    Trace trace = recorder.take();
    for (TraceBuffer& buffer : trace.buffers) buffer.run = 0;  // counted over all tests
    return trace;
  };
  CHECK(record_with(true).buffers == record_with(false).buffers);
}
