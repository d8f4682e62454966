#include "brim/memory/conformance/moves.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "brim/base/random.h"
#include "brim/memory/account.h"
#include "brim/memory/arena_planner.h"
#include "brim/memory/conformance/stream_clocks.h"
#include "brim/memory/conformance/watched_source.h"
#include "brim/memory/out_of_memory.h"

namespace brim::memory::conformance {
namespace {

// An account, and what is known of all that it holds.
class Mover {
 public:
  Mover(const MakePlanner& make_planner, const ConformanceOptions& options, const Pages& pages)
      : options_(options),
        pages_(pages),
        random_(RandomKey{options.seed}),
        account_(Device::cpu(), make_source(), make_planner),
        name_(account_.planner_name()) {
    account_.set_checking(true);
  }
  ~Mover() {
    for (const Held& held : held_) account_.release(held.block);
  }
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  void request_and_release(int64_t count) {
    auto limit = static_cast<float>(std::log(static_cast<double>(options_.largest)));
    for (int64_t i = 0; i < count; ++i)
      if (held_.empty() || random_.uniform() < 0.6f)
        request(static_cast<int64_t>(std::exp(random_.uniform(0, limit))));
      else
        release(random_.below(held_.size()));
    check_numbers();
  }

  /// Where the planner refuses, all must be as before, with a planner that is known to serve.
  void move(const MakePlanner& make_planner) {
    const AccountStats before = account_.stats();
    const std::string from = account_.planner_name();
    try {
      account_.replan(make_planner);
    } catch (const OutOfMemory&) {
      std::string now = account_.planner_name();
      if (now != from && now != "direct") fail("refused a move and left it to {}", now);
    }
    const AccountStats after = account_.stats();
    if (after.live != before.live || after.by_category != before.by_category ||
        after.requests != before.requests || after.mismatches < before.mismatches)
      fail("changed what is counted in a move");
    check_numbers();
    for (const Held& held : held_) check_bytes(held);
  }

  void finish() {
    while (!held_.empty()) release(held_.size() - 1);
    move(planner_named("direct"));
    if (int64_t bytes = account_.stats().reserved; bytes != 0)
      fail("keeps {} bytes of the source after a move from it", bytes);
  }

 private:
  struct Held {
    Block block;
    int mark;
  };

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    raise<ConformanceError>("conformance", "the {} planner {}", name_,
                            fmt::format(format, std::forward<Args>(args)...));
  }

  std::unique_ptr<Source> make_source() {
    auto source = std::make_unique<WatchedSource>(options_.capacity, pages_, Pieces::in_memory,
                                                  [](uintptr_t, int64_t) { return ""; });
    source->set_stream_order(std::make_shared<StreamClocks>(options_.streams));
    source_ = source.get();
    return source;
  }

  void request(int64_t bytes) {
    StreamScope stream(static_cast<int>(random_.below(static_cast<uint64_t>(options_.streams))));
    auto category = static_cast<Category>(random_.below(kCategories));
    try {
      held_.push_back({account_.allocate(bytes, category), ++marks_ % 251});
    } catch (const OutOfMemory&) {
      return;
    }
    const Held& fresh = held_.back();
    std::memset(fresh.block.address(), fresh.mark, static_cast<size_t>(fresh.block.bytes));
  }

  void release(size_t i) {
    check_bytes(held_[i]);
    std::swap(held_[i], held_.back());
    account_.release(held_.back().block);
    held_.pop_back();
  }

  void check_bytes(const Held& held) const {
    const auto* bytes = static_cast<const unsigned char*>(held.block.address());
    if (std::any_of(bytes, bytes + held.block.bytes, [&](int byte) { return byte != held.mark; }))
      fail("lost a value of {} bytes in a move", held.block.bytes);
  }

  void check_numbers() const {
    const AccountStats s = account_.stats();
    if (s.reserved != s.live + s.cached + s.fragmented)
      fail("breaks reserved = live + cached + fragmented in a move: {} = {} + {} + {}", s.reserved,
           s.live, s.cached, s.fragmented);
    if (!source_->breach().empty()) fail("{}", source_->breach());
  }

  const ConformanceOptions options_;
  const Pages pages_;
  RandomStream random_;
  WatchedSource* source_ = nullptr;
  Account account_;
  std::string name_;
  std::vector<Held> held_;
  int marks_ = 0;
};

/// With places for some of what is held, in the plan of no program.
MakePlanner arena_of(int64_t largest) {
  auto plan = std::make_shared<Plan>(make_plan({}));
  for (int64_t bytes = kAlignment; bytes <= largest; bytes *= 2) {
    plan->kept.push_back({.bytes = bytes, .count = 2, .offset = plan->kept_bytes});
    plan->kept_bytes += 2 * bytes;
  }
  plan->arena_bytes = plan->kept_bytes;
  return arena_planner(std::move(plan));
}

}  // namespace

void check_moves(const MakePlanner& make_planner, const ConformanceOptions& options,
                 const Pages& pages) {
  const int64_t requests = options.operations / 10 + 1;
  try {
    Mover mover(make_planner, options, pages);
    for (const MakePlanner& other : {planner_named("direct"), planner_named("caching"),
                                     arena_of(options.largest / 8), make_planner}) {
      mover.request_and_release(requests);
      mover.move(other);
      mover.request_and_release(requests);
      mover.move(make_planner);
    }
    mover.request_and_release(requests);
    mover.finish();
  } catch (const InternalError& error) {
    raise<ConformanceError>("conformance", "in moves between planners: {}", error.what());
  }
}

}  // namespace brim::memory::conformance
