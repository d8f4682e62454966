#include "brim/memory/plan/tree_search.h"

#include <algorithm>
#include <cmath>

#include "brim/memory/plan/orders.h"

namespace brim::memory::packing {
namespace {

// Nodes without coming deeper, after which a run jumps back: from 40 to 640, another power of two
// in each run, since problems differ in what helps them.
constexpr int64_t kPatience = 40;
constexpr uint64_t kPatiences = 5;
constexpr int kPatientRuns = 100;  // after each so many, as much patience more
constexpr int kJumps = 10;         // of a run
constexpr int kArmsCompared = 4;
constexpr int64_t kWorkOfNode = 1 << 11;  // steps of inner loops that count for a node more

size_t at(int32_t i) { return static_cast<size_t>(i); }

}  // namespace

template <class Int>
TreeSearch<Int>::TreeSearch(const Instance& instance, int64_t capacity, RandomKey key)
    : instance_(instance), bounds_(instance, static_cast<Int>(capacity)), random_(key) {
  for (int order = 0; order < kOrders; ++order) {
    orders_.push_back(ranks_of(instance, order));
    for (float bonus : kEdgeBonuses)
      for (Rule rule : {Rule::failures_by_slack, Rule::failures, Rule::floor})
        arms_.push_back({.order = order, .edge_bonus = bonus, .rule = rule});
  }
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

template <class Int>
void TreeSearch<Int>::restart() {
  if (arm_ != nullptr) {
    arm_->depths += deepest_;
    ++arm_->runs;
    ++runs_;
  }
  while (bounds_.placed() > 0) bounds_.unplace();
  arm_ = &choose_arm();
  patience_ = (kPatience << random_.below(kPatiences)) * (kPatientRuns + runs_) / kPatientRuns;
  ranks_ = orders_[at(arm_->order)];
  edge_bonus_ = arm_->edge_bonus * static_cast<float>(ranks_.size());
  deepest_ = 0;
  visits_since_ = 0;
  jumps_ = 0;
}

template <class Int>
void TreeSearch<Int>::jump_back() {
  if (++jumps_ > kJumps) return restart();
  auto depth = static_cast<int32_t>(random_.below(at(bounds_.placed()) + 1));
  while (bounds_.placed() > depth) bounds_.unplace();
  ranks_ = orders_[at(arm_->order)];
  add_noise(ranks_, std::pow(10.f, -random_.uniform(0.5f, 2.5f)), random_);
  visits_since_ = 0;
}

template <class Int>
typename TreeSearch<Int>::Arm& TreeSearch<Int>::choose_arm() {
  auto depth = [](const Arm& arm) { return arm.runs == 0 ? INFINITY : arm.depths / arm.runs; };
  Arm* best = nullptr;
  for (int i = 0; i < kArmsCompared; ++i) {
    Arm& arm = arms_[random_.below(arms_.size())];
    if (best == nullptr || depth(arm) > depth(*best)) best = &arm;
  }
  return *best;
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
    switch (arm_->rule) {
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

/// The rank, less the bonus for each end of the hollow that the buffer reaches.
template <class Int>
float TreeSearch<Int>::score(int32_t b) const {
  Int bound = bounds_.bound(b);
  int32_t first = instance_.first[at(b)], last = instance_.last[at(b)];
  float score = ranks_[at(b)];
  if (first == 0 || bounds_.floor(first - 1) > bound) score -= edge_bonus_;
  if (last == instance_.sections() || bounds_.floor(last) > bound) score -= edge_bonus_;
  return score;
}

template class TreeSearch<int32_t>;
template class TreeSearch<int64_t>;

}  // namespace brim::memory::packing
