#include "brim/memory/plan/tree_search.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "brim/memory/plan/orders.h"

namespace brim::memory::packing {
namespace {

// Nodes without coming deeper, after which a run jumps back: this times a power of two, which is
// chosen, since problems differ in what helps them.
constexpr int64_t kLeastPatience = 40;
constexpr int kPatiences = 5;
constexpr int kRules = 3;
constexpr int kJumps = 10;           // of a run
constexpr int kRunsRemembered = 64;  // then what was learned is forgotten
// Whenever the nodes have doubled, a run gives up only after a share of them, so that a tree which
// can be searched to its end some day is.
constexpr int64_t kPatientShare = 32;
// Shares of all ranks between which the deviation of the noise lies.
constexpr float kLeastNoise = 0.03f, kMostNoise = 0.5f;
constexpr int64_t kWorkOfNode = 1 << 11;  // steps of inner loops that count for a node more

size_t at(int32_t i) { return static_cast<size_t>(i); }

}  // namespace

template <class Int>
TreeSearch<Int>::TreeSearch(const Instance& instance, int64_t capacity, RandomKey key)
    : instance_(instance),
      bounds_(instance, static_cast<Int>(capacity)),
      random_(key),
      tuner_(std::array{kOrders, static_cast<int>(kEdgeBonuses.size()), kRules, kPatiences}) {
  for (int order = 0; order < kOrders; ++order) orders_.push_back(ranks_of(instance, order));
  if (!bounds_.propagate_all()) outcome_ = Outcome::infeasible;
  restart();
}

template <class Int>
Outcome TreeSearch<Int>::run(int64_t nodes) {
  allowed_ += nodes;
  while (spent() < allowed_ && outcome_ == Outcome::unfinished) {
    if (bounds_.placed() == instance_.buffers()) {
      outcome_ = Outcome::packed;
    } else if (visits_since_ > patience_) {
      jump_back();
    } else if (!step() && !retreat()) {
      outcome_ = Outcome::infeasible;
    }
    if (bounds_.placed() > deepest_) {
      deepest_ = bounds_.placed();
      visits_since_ = 0;
    }
  }
  return outcome_;
}

template <class Int>
int64_t TreeSearch<Int>::spent() const {
  return visits_ + (bounds_.work() + visits_ * instance_.sections() / 4) / kWorkOfNode;
}

template <class Int>
std::vector<int64_t> TreeSearch<Int>::offsets() const {
  std::vector<int64_t> offsets;
  for (int32_t b = 0; b < instance_.buffers(); ++b) offsets.push_back(bounds_.bound(b));
  return offsets;
}

/// Begins a run.
template <class Int>
void TreeSearch<Int>::restart() {
  while (bounds_.placed() > 0) bounds_.unplace();
  if (tuner_.runs() == kRunsRemembered) tuner_.forget();
  tuner_.choose(random_);
  ranks_ = orders_[at(tuner_.chosen(kOrder))];
  edge_bonus_ =
      kEdgeBonuses[at(tuner_.chosen(kEdgeBonus))] * static_cast<float>(instance_.buffers());
  rule_ = static_cast<Rule>(tuner_.chosen(kRule));
  patience_ = kLeastPatience << tuner_.chosen(kPatience);
  jumps_ = 0;
  // The last run, as its depth says little of its settings.
  if (tuner_.runs() == kRunsRemembered - 1 && visits_ >= 2 * visits_before_patient_) {
    visits_before_patient_ = visits_;
    patience_ = visits_ / kPatientShare;
    jumps_ = kJumps;
  }
  deepest_ = 0;
  visits_since_ = 0;
}

template <class Int>
void TreeSearch<Int>::jump_back() {
  if (++jumps_ > kJumps) {
    tuner_.learn(deepest_);
    return restart();
  }
  auto depth = static_cast<int32_t>(random_.below(at(bounds_.placed()) + 1));
  while (bounds_.placed() > depth) bounds_.unplace();
  ranks_ = orders_[at(tuner_.chosen(kOrder))];
  float share = kLeastNoise * std::pow(kMostNoise / kLeastNoise, random_.uniform());
  add_noise(ranks_, share, random_);
  visits_since_ = 0;
}

/// Places one more buffer, or raises one that nothing supports where it is.
template <class Int>
bool TreeSearch<Int>::step() {
  ++visits_;
  ++visits_since_;
  int32_t b = choose_buffer();
  return bounds_.is_supported(b) ? bounds_.place(b) : bounds_.postpone(b);
}

/// After a failure: back to the last buffer that can be postponed instead. False where none is.
template <class Int>
bool TreeSearch<Int>::retreat() {
  while (bounds_.placed() > 0) {
    ++visits_;
    ++visits_since_;
    int32_t b = bounds_.last_placed();
    bool may_wait = bounds_.last_is_contested();
    bounds_.unplace();
    if (may_wait && bounds_.postpone(b)) return true;
  }
  return false;
}

template <class Int>
int32_t TreeSearch<Int>::choose_section() const {
  int32_t best = -1;
  float most = 0;
  for (int32_t s = 0; s < instance_.sections(); ++s) {
    Int floor = bounds_.floor(s);
    if (floor == Bounds<Int>::kNoFloor) continue;
    float value = 0;
    switch (rule_) {
      case Rule::failures_by_slack:
        value = bounds_.failures(s) / (static_cast<float>(bounds_.slack(s)) + 1);
        break;
      case Rule::failures:
        value = bounds_.failures(s);
        break;
      case Rule::floor:
        value = -static_cast<float>(floor);
        break;
    }
    if (best >= 0 && value <= most) continue;
    best = s;
    most = value;
  }
  return best;
}

/// One with no buffer beside it that comes before it: whatever lies there is placed already.
template <class Int>
int32_t TreeSearch<Int>::choose_buffer() const {
  auto waiting = bounds_.waiting(choose_section());
  int32_t best = waiting.front();
  for (int32_t b : waiting)
    if (comes_before(b, best)) best = b;
  for (int32_t from = -1; from != best;) {
    from = best;
    bounds_.for_each_beside(from, [&](int32_t b) {
      if (comes_before(b, best)) best = b;
    });
  }
  return best;
}

template <class Int>
bool TreeSearch<Int>::comes_before(int32_t b, int32_t c) const {
  if (bounds_.bound(b) != bounds_.bound(c)) return bounds_.bound(b) < bounds_.bound(c);
  return score(b) < score(c);
}

/// The rank, less the bonuses for the ends of the hollow.
template <class Int>
float TreeSearch<Int>::score(int32_t b) const {
  return ranks_[at(b)] - edge_score(b, instance_.first[at(b)] - 1) -
         edge_score(b, instance_.last[at(b)]);
}

/// A bonus for reaching the wall in the section beside b, and another for being as high as it is,
/// so that no step is left.
template <class Int>
float TreeSearch<Int>::edge_score(int32_t b, int32_t section) const {
  if (section < 0 || section == instance_.sections()) return edge_bonus_;
  Int wall = bounds_.floor(section), bound = bounds_.bound(b);
  if (wall <= bound) return 0;
  return wall - bound == static_cast<Int>(instance_.size[at(b)]) ? 2 * edge_bonus_ : edge_bonus_;
}

template class TreeSearch<int32_t>;
template class TreeSearch<int64_t>;

}  // namespace brim::memory::packing
