// Moves between planners that fail, wherever: what an account holds keeps its values and what is
// noted of it, and the account goes on.
#include <doctest/doctest.h>

#include <cstdlib>

#include "brim/base/error.h"
#include "brim/memory/arena_planner.h"
#include "brim/memory/out_of_memory.h"
#include "brim/tests/memory/holder.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::testing;

namespace {

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

}  // namespace

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
