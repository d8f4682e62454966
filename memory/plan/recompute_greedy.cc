#include "brim/memory/plan/recompute_greedy.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace brim::memory::recompute {
namespace {

constexpr size_t kCandidates = 24;
// Of the changes that were tried, as many are made, best first, as keep to this share of what they
// promised: they are tried one by one and hinder one another.
constexpr double kPromise = 0.5;
constexpr int kChangesOfRound = 4;

struct Change {
  int32_t value;
  Fate saving;
  double rate;  // bytes of excess per second
};

class Greedy {
 public:
  Greedy(const FlatGraph& graph, Simulator& simulator, std::vector<Fate> saving, int64_t budget)
      : graph_(graph), simulator_(simulator), saving_(std::move(saving)), budget_(budget) {
    cost_ = simulate();
  }

  std::vector<Fate> run(int64_t work) {
    const int64_t end = simulator_.work() + work;
    while (cost_.excess > 0 && simulator_.work() < end && improve()) {
    }
    return saving_;
  }

 private:
  Cost simulate() { return simulator_.run(saving_, {.bytes = budget_}); }

  /// What lives at the peak and may leave, most bytes per second first.
  std::vector<int32_t> candidates() {
    simulator_.record(true);
    cost_ = simulate();
    simulator_.record(false);
    std::vector<int32_t> values;
    for (const auto& instance : simulator_.timeline().instances)
      if (instance.born <= cost_.peak_moment && cost_.peak_moment <= instance.last &&
          graph_.may_leave(instance.value) && graph_.bytes[at(instance.value)] > 0)
        values.push_back(instance.value);
    std::ranges::sort(values, {}, [&](int32_t v) { return std::pair(graph_.price(v), v); });
    values.resize(std::min(values.size(), kCandidates));
    return values;
  }

  /// Bytes of excess per second that a change takes away; 0 or less where it does not help.
  double rate_of(const Cost& cost) const {
    const double gain = cost_.excess - cost.excess, seconds = cost.seconds - cost_.seconds;
    if (!cost.finished || gain <= 0) return 0;
    return seconds > 0 ? gain / seconds : std::numeric_limits<double>::max();
  }

  Cost with(int32_t value, Fate saving) {
    const Fate before = std::exchange(saving_[at(value)], saving);
    Cost cost = simulate();
    saving_[at(value)] = before;
    return cost;
  }

  bool improve() {
    std::vector<Change> changes;
    for (int32_t v : candidates())
      for (Fate saving : kFates) {
        if (saving == saving_[at(v)] || !graph_.may_be(v, saving)) continue;
        double rate = rate_of(with(v, saving));
        if (rate > 0) changes.push_back({v, saving, rate});
      }
    std::ranges::stable_sort(changes, std::greater(), &Change::rate);
    int made = 0;
    for (const Change& change : changes) {
      if (made == kChangesOfRound || cost_.excess <= 0) break;
      Cost cost = with(change.value, change.saving);
      if (rate_of(cost) < kPromise * change.rate) continue;
      saving_[at(change.value)] = change.saving;
      cost_ = cost;
      ++made;
    }
    return made > 0;
  }

  const FlatGraph& graph_;
  Simulator& simulator_;
  std::vector<Fate> saving_;
  int64_t budget_;
  Cost cost_;
};

}  // namespace

std::vector<Fate> drop_until_it_fits(const FlatGraph& graph, Simulator& simulator,
                                     std::vector<Fate> saving, int64_t budget, int64_t work) {
  return Greedy(graph, simulator, std::move(saving), budget).run(work);
}

}  // namespace brim::memory::recompute
