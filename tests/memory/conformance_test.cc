#include "brim/memory/conformance.h"

#include <doctest/doctest.h>

#include <unordered_map>
#include <vector>

#include "brim/base/bytes.h"
#include "brim/memory/account.h"
#include "brim/memory/arena_planner.h"
#include "brim/memory/caching_planner.h"
#include "brim/tests/support/memory_script.h"

using namespace brim;
using namespace brim::memory;

namespace {

/// A correct planner that sends every request to the source, to be broken in one way each.
class Plain : public Planner {
 public:
  using Planner::Planner;
  std::string_view name() const override { return "broken"; }
  Placement place(const Request& request) override {
    const int64_t bytes = round_up(request.bytes, source().pages().bytes);
    void* address = source().allocate(bytes);
    if (address == nullptr) return {};
    held_[address] = {bytes, request.stream};
    lost_[address] = bytes - request.bytes;
    return {address};
  }
  int64_t fragmented() const override {
    int64_t bytes = 0;
    for (const auto& [address, lost] : lost_) bytes += lost;
    return bytes;
  }
  void release(const Placement& placement) noexcept override {
    auto [bytes, stream] = held_.at(placement.address);
    held_.erase(placement.address);
    lost_.erase(placement.address);
    source().finish(stream);
    source().deallocate(placement.address, bytes);
  }

 protected:
  struct Piece {
    int64_t bytes;
    int stream;
  };
  std::unordered_map<void*, Piece> held_;
  std::unordered_map<void*, int64_t> lost_;
};

/// Passes everything on to a caching planner.
class Wrapped : public Planner {
 public:
  explicit Wrapped(Source& source) : Planner(source), inner_(source) {}
  std::string_view name() const override { return "broken"; }
  Placement place(const Request& request) override { return inner_.place(request); }
  void release(const Placement& placement) noexcept override { inner_.release(placement); }
  int64_t cached() const override { return inner_.cached(); }
  int64_t fragmented() const override { return inner_.fragmented(); }
  void empty_cache() noexcept override { inner_.empty_cache(); }

 protected:
  CachingPlanner inner_;
};

template <class Broken>
void check_breach(const char* text) {
  auto make = [](Source& source) { return std::make_unique<Broken>(source); };
  CHECK_THROWS_WITH_AS(check_planner(make), doctest::Contains(text), ConformanceError);
}

}  // namespace

TEST_CASE("brim's planners conform") {
  check_planner(planner_named("direct"));
  check_planner(planner_named("caching"));
  check_planner(caching_planner({.max_split = 2 << 20}));
  check_planner(planner_named("caching"), {.capacity = 1 << 20, .largest = 1 << 17, .seed = 2});
  check_planner([](Source& source) { return std::make_unique<Plain>(source); });
  check_planner([](Source& source) { return std::make_unique<Wrapped>(source); });
}

TEST_CASE("the arena planner conforms, with the plan of another program and with none") {
  check_planner(arena_planner(std::make_shared<Plan>(make_plan({}))));
  brim::testing::ToyTraining toy(6);
  auto plan = std::make_shared<Plan>(
      make_plan(brim::testing::record({toy.setup(), toy.step({64, 64, 7}), toy.evaluation(64)})));
  check_planner(arena_planner(plan), {.empties = false});
}

TEST_CASE("a planner that places over what is held is found") {
  struct Overlap final : Wrapped {
    using Wrapped::Wrapped;
    Placement place(const Request& request) override {
      Placement placement = Wrapped::place(request);
      if (++requests_ % 50 != 0) return last_ = placement;
      placement.address = last_.address;
      return placement;
    }
    int requests_ = 0;
    Placement last_;
  };
  check_breach<Overlap>("the broken planner placed ");
  check_breach<Overlap>(" that are held");
}

TEST_CASE("a planner that places off the boundary is found") {
  struct Misaligned final : Plain {
    using Plain::Plain;
    Placement place(const Request& request) override {
      Placement placement = Plain::place(request);
      return {static_cast<char*>(placement.address) + 32, placement.address};
    }
  };
  check_breach<Misaligned>(", off a 64-byte boundary");
}

TEST_CASE("a planner that places outside of what the source gave is found") {
  struct Outside final : Plain {
    using Plain::Plain;
    Placement place(const Request& request) override {
      Placement placement = Plain::place(request);
      return {static_cast<char*>(placement.address) + kAlignment, placement.address};
    }
  };
  check_breach<Outside>(", outside of what the source gave it");
}

TEST_CASE("a planner that says wrong numbers is found") {
  struct Forgetful final : Wrapped {
    using Wrapped::Wrapped;
    int64_t fragmented() const override { return 0; }
  };
  check_breach<Forgetful>("breaks reserved = live + cached + fragmented after a request");
  struct Negative final : Plain {
    using Plain::Plain;
    int64_t cached() const override { return -64; }
    int64_t fragmented() const override { return 64; }
  };
  check_breach<Negative>(
      "breaks reserved = live + cached + fragmented after its start: 0 = 0 + -64");
  struct Phantom final : Plain {
    explicit Phantom(Source& source) : Plain(source), base_(source.allocate(64)) {}
    ~Phantom() override { source().deallocate(base_, 64); }
    int64_t fragmented() const override { return 64; }
    void* base_;
  };
  check_breach<Phantom>("64 bytes are lost inside placements, of which there are none");
}

TEST_CASE("a planner that holds something after a refusal is found") {
  struct Keeper final : Plain {
    using Plain::Plain;
    ~Keeper() override {
      for (void* address : kept_) source().deallocate(address, 64);
    }
    Placement place(const Request& request) override {
      Placement placement = Plain::place(request);
      if (placement.address == nullptr)
        if (void* address = source().allocate(64)) kept_.push_back(address);
      return placement;
    }
    int64_t cached() const override { return 64 * static_cast<int64_t>(kept_.size()); }
    std::vector<void*> kept_;
  };
  check_breach<Keeper>("holds 64 bytes more after it refused ");
}

TEST_CASE("a planner that does not give its bytes back is found") {
  struct Cache final : Wrapped {
    using Wrapped::Wrapped;
    void empty_cache() noexcept override {}
  };
  check_breach<Cache>("bytes after empty_cache when nothing is held");
  check_planner([](Source& source) { return std::make_unique<Cache>(source); }, {.empties = false});
  struct Leak final : Plain {
    explicit Leak(Source& source) : Plain(source) { source.allocate(128); }
    int64_t cached() const override { return 128; }
  };
  auto make = [](Source& source) { return std::make_unique<Leak>(source); };
  CHECK_THROWS_WITH_AS(check_planner(make, {.empties = false}),
                       doctest::Contains("keeps 128 bytes of the source when it is destroyed"),
                       ConformanceError);
}

TEST_CASE("a planner that gives back what it did not take so is found") {
  struct Halves final : Plain {
    using Plain::Plain;
    void release(const Placement& placement) noexcept override {
      Piece piece = held_.at(placement.address);
      held_.erase(placement.address);
      source().finish(piece.stream);
      if (piece.bytes == 64) return source().deallocate(placement.address, 64);
      source().deallocate(placement.address, piece.bytes - 64);
      source().deallocate(static_cast<char*>(placement.address) + piece.bytes - 64, 64);
    }
  };
  check_breach<Halves>(", of which it had taken ");
  struct Elsewhere final : Plain {
    using Plain::Plain;
    void release(const Placement& placement) noexcept override {
      Piece piece = held_.at(placement.address);
      source().finish(piece.stream);
      source().deallocate(static_cast<char*>(placement.address) + 64, piece.bytes);
    }
  };
  check_breach<Elsewhere>(", which the source had not given");
  struct Held final : Plain {  // the piece of another
    using Plain::Plain;
    void release(const Placement& placement) noexcept override {
      auto other = held_.begin();
      if (other->first == placement.address && held_.size() > 1) ++other;
      source().finish(other->second.stream);
      source().deallocate(other->first, other->second.bytes);
      held_.erase(other);
    }
  };
  check_breach<Held>(" that are held");
}

TEST_CASE("a planner that does not heed streams is found") {
  struct OneStream final : Wrapped {
    using Wrapped::Wrapped;
    Placement place(const Request& request) override {
      Request changed = request;
      changed.stream = 0;
      return Wrapped::place(changed);
    }
  };
  check_breach<OneStream>("is not done, and did not wait");
  struct Hasty final : Plain {
    using Plain::Plain;
    void release(const Placement& placement) noexcept override {
      Piece piece = held_.at(placement.address);
      held_.erase(placement.address);
      source().deallocate(placement.address, piece.bytes);
    }
  };
  check_breach<Hasty>("bytes before the work of stream ");
}

TEST_CASE("a planner that never serves again is found") {
  struct Once final : Plain {
    using Plain::Plain;
    Placement place(const Request& request) override {
      Placement placement = full_ ? Placement{} : Plain::place(request);
      full_ = full_ || (placement.address == nullptr && request.bytes <= (32 << 20));
      return placement;
    }
    bool full_ = false;
  };
  auto make = [](Source& source) { return std::make_unique<Once>(source); };
  // Few operations, so that the room does not run out among the random ones.
  CHECK_THROWS_WITH_AS(check_planner(make, {.operations = 100}),
                       doctest::Contains("after all was released, and had served as many"),
                       ConformanceError);
  struct Nothing final : Plain {
    using Plain::Plain;
    Placement place(const Request&) override { return {}; }
  };
  check_breach<Nothing>("refuses 64 bytes when nothing is held");
}

TEST_CASE("a planner that writes to bytes which are held is found") {
  struct Scribbler final : Plain {
    using Plain::Plain;
    Placement place(const Request& request) override {
      for (auto& [address, piece] : held_) *static_cast<char*>(address) ^= 1;
      return Plain::place(request);
    }
  };
  check_breach<Scribbler>("changed a byte at 0x");
}

TEST_CASE("a planner that loses count in a step or a section is found") {
  struct Step final : Plain {
    using Plain::Plain;
    void begin_step() override { source().allocate(64); }
  };
  check_breach<Step>("fragmented after begin_step: ");
  struct Late final : Plain {
    using Plain::Plain;
    void begin_section(const Section&) override { lie_ = 64; }
    int64_t cached() const override { return lie_; }
    int64_t lie_ = 0;
  };
  check_breach<Late>("fragmented after begin_section: ");
}

TEST_CASE("a planner that serves all but what moves to it is found") {
  struct Careless final : Wrapped {
    using Wrapped::Wrapped;
    Placement place_kept(const Request& request) override {
      Placement placement = place(request);
      if (last_ != nullptr) placement.address = last_;
      last_ = placement.address;
      return placement;
    }
    void* last_ = nullptr;
  };
  check_breach<Careless>("in moves between planners: memory: the broken planner moved buffer ");
  struct Miscounting final : Wrapped {
    using Wrapped::Wrapped;
    Placement place_kept(const Request& request) override {
      lie_ = 64;
      return place(request);
    }
    int64_t cached() const override { return inner_.cached() + lie_; }
    int64_t lie_ = 0;
  };
  check_breach<Miscounting>("in moves between planners: brim: reserved bytes are live, cached and");
}

TEST_CASE("a planner that changes the limit is found") {
  struct Rich final : Plain {
    explicit Rich(Source& source) : Plain(source) { source.set_capacity(Source::kUnlimited); }
  };
  check_breach<Rich>("changed the capacity of the source in its start");
}

TEST_CASE("a planner whose choices depend on addresses is found") {
  struct Superstitious final : Wrapped {  // wants pieces above the first
    using Wrapped::Wrapped;
    Placement place(const Request& request) override {
      Placement placement = Wrapped::place(request);
      if (first_ == nullptr) first_ = placement.address;
      if (placement.address < first_) inner_.empty_cache();
      return placement;
    }
    void* first_ = nullptr;
  };
  auto make = [](Source& source) { return std::make_unique<Superstitious>(source); };
  CHECK_THROWS_WITH_AS(check_planner(make),
                       doctest::Contains("when the source puts its pieces elsewhere"),
                       ConformanceError);
}

TEST_CASE("conformance refuses options that test nothing") {
  MakePlanner direct = planner_named("direct");
  CHECK_THROWS_AS(check_planner(direct, {.operations = 0}), ValueError);
  CHECK_THROWS_AS(check_planner(direct, {.streams = 0}), ValueError);
  CHECK_THROWS_WITH_AS(check_planner(direct, {.capacity = 1024, .largest = 1024}),
                       "conformance: expected a largest request of 512 bytes to half the capacity "
                       "of 1024, got 1024",
                       ValueError);
  CHECK_THROWS_WITH_AS(check_planner([](Source&) { return std::unique_ptr<Planner>(); }),
                       "conformance: expected a planner, got none", ConformanceError);
}
