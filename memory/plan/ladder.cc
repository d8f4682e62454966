#include "brim/memory/plan/ladder.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "brim/base/stop.h"
#include "brim/memory/plan/orders.h"
#include "brim/memory/plan/race.h"
#include "brim/memory/plan/shaker.h"
#include "brim/memory/plan/skyline.h"

namespace brim::memory::packing {
namespace {

// Nodes of a first attempt at a capacity; each round of attempts gets more.
constexpr int64_t kFirstAttempt = 20'000;
constexpr int64_t kGrowth = 4;
constexpr int64_t kOnlyAttempt = int64_t{1} << 40;
// The ladder ends where a rung is less than this share of the height.
constexpr int64_t kFinestRung = 1 << 14;
// (Buffer, section) pairs up to which a tree is searched; two searches keep four bytes for each.
constexpr int64_t kMostPairs = 1 << 24;

int64_t pairs_of(const Instance& instance) {
  int64_t pairs = 0;
  for (size_t b = 0; b < instance.size.size(); ++b) pairs += instance.last[b] - instance.first[b];
  return pairs;
}

/// Sums of two bounds must not overflow.
template <class Int>
bool holds(int64_t capacity) {
  return capacity < std::numeric_limits<Int>::max() / 4;
}

}  // namespace

Ladder::Ladder(Reduced problem, const LadderOptions& options)
    : problem_(std::move(problem)),
      capacity_(options.capacity / problem_.unit),
      proved_(problem_.bound),
      goal_(std::max(capacity_, problem_.bound)),
      nodes_(options.nodes),
      key_(options.key) {
  stop_ = [this, stop = options.stop] {
    stop_if_asked();
    return stopped_ = stopped_ || (stop && stop());
  };
  for (Component& component : problem_.components) pieces_.push_back({std::move(component)});
}

Packing Ladder::climb() {
  if (capacity_ > 0 && capacity_ < problem_.bound) nodes_ = 0;  // one packing, to show
  for (Piece& piece : pieces_) pack_greedily(piece);
  if (capacity_ == 0) {
    search_lowest();
  } else {
    search_given();
  }
  return result();
}

/// In every order, until one reaches the goal.
void Ladder::pack_greedily(Piece& piece) {
  const Instance& instance = piece.component.instance;
  Skyline skyline(instance);
  piece.height = std::numeric_limits<int64_t>::max() - piece.component.base;
  for (int order = 0; order < kOrders; ++order) {
    std::vector<float> ranks = ranks_of(instance, order);
    for (float share : kEdgeBonuses) {
      float bonus = share * static_cast<float>(ranks.size());
      int64_t height = skyline.pack(ranks, {.edge_bonus = bonus, .limit = piece.height - 1});
      nodes_ -= skyline.placed();
      if (height != Skyline::kGaveUp) {
        piece.offsets = skyline.offsets();
        piece.height = height;
        piece.order = order;
        piece.edge_bonus = bonus;
      }
      if (piece.top() <= goal_ || nodes_ <= 0 || stop_()) return;
    }
  }
}

int64_t Ladder::height() const {
  int64_t height = problem_.bound;
  for (const Piece& piece : pieces_) height = std::max(height, piece.top());
  return height;
}

/// A search learns as it goes on, so one piece gets all nodes at once. Of several, one for which
/// the capacity is impossible may come after one that takes long: rounds find it.
void Ladder::search_given() {
  auto open = std::ranges::count_if(pieces_, [&](const Piece& p) { return p.top() > capacity_; });
  for (int64_t nodes = open == 1 ? kOnlyAttempt : kFirstAttempt; !done(); nodes *= kGrowth) {
    if (attempt(capacity_, nodes) != Outcome::infeasible) continue;
    proved_ = capacity_ + 1;
    return;
  }
}

/// Rounds of attempts: at the lowest height that may be possible, then upwards by halving what lies
/// between the last failure and the best packing, then just below that one, for a proof. Whatever a
/// round could not settle gets more nodes in the next.
void Ladder::search_lowest() {
  for (int64_t nodes = kFirstAttempt; !done(); nodes *= kGrowth) {
    int64_t failed = proved_;
    if (attempt(proved_, nodes) == Outcome::infeasible) goal_ = ++proved_;
    while (!done() && height() - failed > std::max<int64_t>(1, height() / kFinestRung)) {
      int64_t capacity = failed + (height() - failed) / 2;
      Outcome outcome = attempt(capacity, nodes);
      if (outcome != Outcome::packed) failed = capacity;
      if (outcome == Outcome::infeasible) goal_ = proved_ = capacity + 1;
    }
    if (!done() && attempt(height() - 1, nodes) == Outcome::infeasible) goal_ = proved_ = height();
  }
}

/// Brings every piece below the capacity, or finds one for which it cannot.
Outcome Ladder::attempt(int64_t capacity, int64_t nodes) {
  key_ = derive(key_, ++attempts_);
  for (Piece& piece : pieces_) {
    if (piece.top() <= capacity) continue;
    Outcome outcome =
        attempt(piece, capacity - piece.component.base, std::clamp<int64_t>(nodes_, 0, nodes));
    if (outcome != Outcome::packed) return outcome;
  }
  return Outcome::packed;
}

Outcome Ladder::attempt(Piece& piece, int64_t capacity, int64_t nodes) {
  if (pairs_of(piece.component.instance) > kMostPairs || !holds<int64_t>(capacity))
    return shake(piece, capacity, nodes);
  return holds<int32_t>(capacity) ? search<int32_t>(piece, capacity, nodes)
                                  : search<int64_t>(piece, capacity, nodes);
}

template <class Int>
Outcome Ladder::search(Piece& piece, int64_t capacity, int64_t nodes) {
  const Instance& instance = piece.component.instance;
  auto make = [&](int stream) {
    RandomKey key = derive(key_, static_cast<uint64_t>(stream));
    return std::make_unique<TreeSearch<Int>>(instance, capacity, key);
  };
  Race race(make, nodes, stop_);
  TreeSearch<Int>* winner = race.run();
  nodes_ -= race.nodes();
  if (winner == nullptr) return Outcome::unfinished;
  if (winner->outcome() == Outcome::infeasible) return Outcome::infeasible;
  piece.offsets = winner->offsets();
  piece.height = 0;
  for (size_t b = 0; b < piece.offsets.size(); ++b)
    piece.height = std::max(piece.height, piece.offsets[b] + instance.size[b]);
  return Outcome::packed;
}

Outcome Ladder::shake(Piece& piece, int64_t capacity, int64_t nodes) {
  const Instance& instance = piece.component.instance;
  auto make = [&](int stream) {
    return std::make_unique<Shaker>(instance, ranks_of(instance, piece.order), piece.edge_bonus,
                                    piece.height, capacity,
                                    derive(key_, static_cast<uint64_t>(stream)));
  };
  Race race(make, nodes, stop_);
  const Shaker* winner = race.run();
  nodes_ -= race.nodes();
  for (int stream : {0, 1}) {
    const Shaker* shaker = race.search(stream);
    if (shaker == nullptr || shaker->height() >= piece.height) continue;
    if (winner != nullptr && winner != shaker) continue;
    piece.offsets = shaker->offsets();
    piece.height = shaker->height();
  }
  return winner != nullptr ? Outcome::packed : Outcome::unfinished;
}

Packing Ladder::result() const {
  int64_t units = height();
  Packing packing{.offsets = problem_.offsets,
                  .height = units * problem_.unit,
                  .lower_bound = problem_.bound * problem_.unit};
  for (const Piece& piece : pieces_)
    for (size_t b = 0; b < piece.offsets.size(); ++b)
      packing.offsets[static_cast<size_t>(piece.component.instance.origin[b])] =
          piece.component.base + piece.offsets[b];
  for (int64_t& offset : packing.offsets) offset *= problem_.unit;
  bool fits = capacity_ == 0 || units <= capacity_;
  packing.proved = units <= proved_ || (!fits && proved_ > capacity_);
  return packing;
}

}  // namespace brim::memory::packing
