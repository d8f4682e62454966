#include "brim/memory/plan/recompute_local.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace brim::memory::recompute {
namespace {

constexpr uint64_t kLongestRange = 24;  // values
constexpr uint64_t kWidestSwap = 40;
constexpr int64_t kReplaysOfOp = 8;  // more, and a plan is not worth looking at
// Of the step's seconds and of the peak, at the beginning; and what is left of it at the end.
constexpr double kPeakHeat = 0.01, kCooling = 0.001;
// The price of a byte above the budget, in what a byte saved costs on average; its rise.
constexpr double kOverRise = 20, kLeastExtra = 0.05;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

double share(int64_t part, int64_t whole) {
  return part < whole ? static_cast<double>(part) / static_cast<double>(whole) : 1;
}

std::vector<int32_t> values_that_may_leave(const FlatGraph& graph) {
  std::vector<int32_t> values;
  for (int32_t v = 0; v < graph.values(); ++v)
    if (graph.may_leave(v)) values.push_back(v);
  return values;
}

}  // namespace

LocalSearch::LocalSearch(const FlatGraph& graph, Simulator& simulator, std::vector<Fate> saving,
                         int64_t budget)
    : graph_(graph),
      simulator_(simulator),
      budget_(budget),
      free_(values_that_may_leave(graph)),
      fates_(graph.offload_order.empty() ? kFates.size() - 1 : kFates.size()),
      saving_(std::move(saving)) {
  cost_ = simulator_.run(saving_);
  remember_best();
}

bool LocalSearch::better(const Cost& a, const Cost& b) const {
  const int64_t over_a = std::max(a.peak, budget_), over_b = std::max(b.peak, budget_);
  return std::tuple(over_a, a.seconds, a.host, a.peak) <
         std::tuple(over_b, b.seconds, b.host, b.peak);
}

void LocalSearch::remember_best() {
  best_ = saving_;
  best_cost_ = cost_;
}

void LocalSearch::put(int32_t value, Fate saving) {
  if (saving_[at(value)] == saving || !graph_.may_be(value, saving)) return;
  undo_.emplace_back(value, saving_[at(value)]);
  saving_[at(value)] = saving;
}

void LocalSearch::undo() {
  for (; !undo_.empty(); undo_.pop_back()) saving_[at(undo_.back().first)] = undo_.back().second;
}

/// Keeps the change where it fits and costs no more than `slack` seconds; undoes it where not.
bool LocalSearch::accept(double slack) {
  if (undo_.empty()) return false;
  const Cost cost = simulator_.run(saving_, {.seconds = cost_.seconds + slack});
  if (!cost.finished || cost.peak > budget_) {
    undo();
    return false;
  }
  undo_.clear();
  cost_ = cost;
  if (better(cost_, best_cost_)) remember_best();
  return true;
}

void LocalSearch::keep_what_fits(int64_t work) {
  const int64_t end = simulator_.work() + work;
  std::vector<int32_t> dropped;
  for (int32_t v : free_)
    if (saving_[at(v)] != Fate::keep) dropped.push_back(v);
  std::ranges::stable_sort(dropped, std::greater(), [&](int32_t v) { return graph_.price(v); });
  // Groups that do not fit are halved, until they are single values.
  const auto count = static_cast<int64_t>(dropped.size());
  constexpr int64_t kGroup = 16;
  std::vector<std::pair<int64_t, int64_t>> groups;
  for (int64_t begin = (count - 1) / kGroup * kGroup; begin >= 0; begin -= kGroup)
    groups.emplace_back(begin, std::min(begin + kGroup, count));
  while (!groups.empty() && simulator_.work() < end) {
    const auto [begin, last] = groups.back();
    groups.pop_back();
    for (int64_t i = begin; i < last; ++i) put(dropped[at(i)], Fate::keep);
    if (accept(0) || last - begin < 2) continue;
    const int64_t middle = begin + (last - begin) / 2;
    groups.emplace_back(middle, last);
    groups.emplace_back(begin, middle);
  }
}

/// A flip, a range or a swap.
void LocalSearch::change(RandomStream& random) {
  const size_t first = random.below(free_.size());
  const Fate saving = kFates[random.below(fates_)];
  const uint64_t kind = random.below(4);
  if (kind == 0) return put(free_[first], saving);
  if (kind == 1) {
    const size_t end = std::min(free_.size(), first + 2 + random.below(kLongestRange));
    const uint64_t which = random.below(3);  // the cheap ones, the others, all
    for (size_t i = first; i < end; ++i)
      if (which == 2 || graph_.cheap[at(free_[i])] == which) put(free_[i], saving);
    return;
  }
  const size_t reach =
      kind == 2 ? std::min<size_t>(kWidestSwap, free_.size() - first) : free_.size() - first;
  const int32_t a = free_[first], b = free_[first + random.below(reach)];
  const Fate of_a = saving_[at(a)], of_b = saving_[at(b)];
  if (of_a == of_b) return put(a, saving);
  put(a, of_b);
  put(b, of_a);
}

/// A price that random changes lower. One that raises it is taken by a chance that falls as the
/// search cools.
template <class Price>
void LocalSearch::anneal(const Schedule& schedule, RandomKey key, const Price& price_of) {
  if (free_.empty()) return;
  RandomStream random(key);
  const int64_t begin = simulator_.work();
  double price = price_of(cost_, 0), done = 0;
  for (int64_t i = 0; done < 1; ++i) {
    done =
        std::max(share(i, schedule.simulations), share(simulator_.work() - begin, schedule.work));
    const double heat = schedule.heat * std::pow(kCooling, done);
    const double allowed = price - heat * std::log(1 - static_cast<double>(random.uniform()));
    change(random);
    if (undo_.empty()) continue;
    const Cost cost =
        simulator_.run(saving_, {.seconds = schedule.seconds_are_the_price ? allowed : kNoLimit,
                                 .replays = kReplaysOfOp * (graph_.ops() + 1)});
    const double next = cost.finished ? price_of(cost, done) : kNoLimit;
    if (next > allowed) {
      undo();
      continue;
    }
    undo_.clear();
    cost_ = cost;
    price = next;
    if (better(cost_, best_cost_)) remember_best();
  }
  saving_ = best_;
  cost_ = best_cost_;
}

void LocalSearch::shake(int64_t simulations, int64_t work, double heat, RandomKey key) {
  // What a byte costs on average, where what is saved is within the budget.
  const int64_t all_kept = simulator_.run(graph_.all_kept()).peak;
  const double per_byte = std::max(best_cost_.seconds, kLeastExtra * graph_.seconds) /
                          static_cast<double>(std::max<int64_t>(1, all_kept - budget_));
  anneal({simulations, work, heat, true}, key, [&](const Cost& cost, double done) {
    const auto over = static_cast<double>(std::max<int64_t>(0, cost.peak - budget_));
    return cost.seconds + per_byte * std::pow(kOverRise, done) * over;
  });
}

void LocalSearch::lower_peak(int64_t simulations, int64_t work, RandomKey key) {
  anneal({simulations, work, kPeakHeat * static_cast<double>(best_cost_.peak), false}, key,
         [](const Cost& cost, double) { return static_cast<double>(cost.peak); });
}

}  // namespace brim::memory::recompute
