#include "brim/memory/plan/recompute_search.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <tuple>
#include <utility>

#include "brim/base/error.h"
#include "brim/memory/plan/recompute_greedy.h"
#include "brim/memory/plan/recompute_local.h"
#include "brim/memory/plan/side_by_side.h"

namespace brim::memory::recompute {
namespace {

// Moments of simulations at effort 1; some 10 to 25 nanoseconds each, on one core. The greedy has
// too little for chains of many thousands of ops, where it has no chance.
constexpr double kSegmentWork = 8e6, kGreedyWork = 6e6, kKeepWork = 2.5e6, kFirstShakeWork = 5e6,
                 kShakeWork = 1.8e6, kLeastWork = 6e6;
// Per op of larger graphs.
constexpr double kOpsOfWork = 1000;
constexpr double kFirstShakes = 10'000, kShakes = 10'000, kLeastShakes = 10'000;
constexpr int kChainRounds = 8, kCopyParts = 4;
// Shares of the step's seconds. Cooler ones suit graphs whose search stops early, by its work.
constexpr double kFirstHeat = 0.15;
constexpr std::array kHeats{0.15, 0.05, 0.015, 0.002};

bool better(const Found& a, const Found& b) {
  return std::tuple(a.cost.seconds, a.cost.host, a.cost.peak) <
         std::tuple(b.cost.seconds, b.cost.host, b.cost.peak);
}

}  // namespace

Search::Search(const FlatGraph& graph, double effort, RandomKey key)
    : graph_(graph), simulator_(graph), effort_(effort), key_(key) {
  if (graph.offload_order.empty()) return;
  graph_alone_ = std::make_unique<FlatGraph>(graph.without_host());
  alone_ = std::make_unique<Search>(*graph_alone_, effort, key);
}

int64_t Search::simulations() const {
  return simulator_.runs() + simulations_elsewhere_ + (table_ ? table_->simulations() : 0) +
         (alone_ ? alone_->simulations() : 0);
}

int64_t Search::transitions() const {
  if (alone_) return alone_->transitions();
  return chain_ ? chain_->transitions() : 0;
}

int64_t Search::work(double share) const {
  return static_cast<int64_t>(share * effort_ * std::max(1.0, graph_.ops() / kOpsOfWork));
}

Found Search::simulated(std::vector<Fate> saving) {
  Cost cost = simulator_.run(saving);
  return {std::move(saving), cost};
}

Found Search::keep_all() { return simulated(graph_.all_kept()); }

Chain& Search::chain() {
  if (!chain_) {
    table_.emplace(graph_, work(kSegmentWork));
    chain_.emplace(graph_, *table_);
  }
  return *chain_;
}

/// The first `most` that may go to the host do, of those that are kept and that it has room for.
std::vector<Fate> Search::offloading(std::vector<Fate> saving, int64_t most) const {
  int64_t room = graph_.host_bytes;
  for (int32_t v : graph_.offload_order) {
    if (most == 0) break;
    if (saving[at(v)] != Fate::keep || graph_.bytes[at(v)] > room) continue;
    saving[at(v)] = Fate::offload;
    room -= graph_.bytes[at(v)];
    --most;
  }
  return saving;
}

/// As few of the first as make it fit, for they have the longest way back; else all.
std::vector<Fate> Search::offloading_for(int64_t budget, const std::vector<Fate>& saving) {
  int64_t few = 0, enough = std::ssize(graph_.offload_order);
  while (few + 1 < enough) {
    const int64_t middle = few + (enough - few) / 2;
    const Cost cost = simulator_.run(offloading(saving, middle));
    (cost.peak <= budget ? enough : few) = middle;
  }
  return offloading(saving, enough);
}

/// What the chain drops for a budget that is larger by some of what copies can carry beside
/// forward, with offloads for the rest.
std::vector<std::vector<Fate>> Search::with_copies(int64_t budget) {
  double forward = 0;
  for (double seconds : graph_.op_seconds) forward += seconds;
  const auto most = static_cast<double>(keep_all().cost.peak - budget);
  const double carried = std::min(most, forward * graph_.host_bytes_per_second);
  std::vector<std::vector<Fate>> plans{offloading_for(budget, graph_.all_kept())};
  for (int part = 1; part <= kCopyParts; ++part) {
    const auto more = static_cast<int64_t>(carried * part / kCopyParts);
    if (std::optional<ChainPlan> plan = alone_->chain().plan(budget + more))
      plans.push_back(offloading_for(budget, plan->saving));
  }
  return plans;
}

const Found& Search::least() {
  if (least_) return *least_;
  Found best = keep_all();
  auto consider = [&](Found other) {
    if (other.cost.peak < best.cost.peak) best = std::move(other);
  };
  if (alone_) {
    const auto all = std::ssize(graph_.offload_order);
    consider(alone_->least());
    consider(simulated(offloading(best.saving, all)));
    consider(simulated(offloading(graph_.all_kept(), all)));
  } else if (graph_.ops() > 0) {
    consider(simulated(chain().least().saving));
  }
  LocalSearch local(graph_, simulator_, std::move(best.saving), 0);
  local.lower_peak(static_cast<int64_t>(kLeastShakes * effort_), work(kLeastWork), key_);
  least_ = Found{local.saving(), local.cost()};
  return *least_;
}

/// The chain counts too many bytes, so it is also asked for more than the budget: by bisection, for
/// the most that yields a plan which fits in truth. Plans on the way that do not are places for the
/// greedy to begin.
std::vector<std::vector<Fate>> Search::by_chain(int64_t budget) {
  std::vector<std::vector<Fate>> plans;
  int64_t low = budget, high = keep_all().cost.peak, asked = budget;
  for (int round = 0; round < kChainRounds; ++round) {
    std::optional<ChainPlan> plan = chain().plan(asked);
    const int64_t peak = plan ? simulator_.run(plan->saving).peak : 0;
    check(!plan || peak <= plan->peak, "the true peak is at most that of the chain");
    (peak <= budget ? low : high) = asked;
    if (plan && std::ranges::count(plans, plan->saving) == 0)
      plans.push_back(std::move(plan->saving));
    asked = low + (high - low) / 2;
  }
  return plans;
}

std::vector<std::vector<Fate>> Search::starts_for(int64_t budget) {
  std::vector<std::vector<Fate>> starts = alone_ ? with_copies(budget) : by_chain(budget);
  starts.push_back(graph_.all_kept());
  starts.push_back(least().saving);
  return starts;
}

/// With that share of the work; it need not fit.
Found Search::improved(Simulator& simulator, std::vector<Fate> start, int64_t budget,
                       double share) const {
  auto saving =
      drop_until_it_fits(graph_, simulator, std::move(start), budget, work(share * kGreedyWork));
  LocalSearch local(graph_, simulator, std::move(saving), budget);
  local.keep_what_fits(work(share * kKeepWork));
  local.shake(static_cast<int64_t>(share * kFirstShakes * effort_), work(share * kFirstShakeWork),
              kFirstHeat * graph_.seconds, key_);
  return {local.saving(), local.cost()};
}

std::optional<Found> Search::plan(int64_t budget) {
  if (Found all = keep_all(); all.cost.peak <= budget) return all;
  if (least().cost.peak > budget) return std::nullopt;
  std::optional<Found> best;
  if (alone_) best = alone_->plan(budget);
  std::vector<std::vector<Fate>> starts = starts_for(budget);
  const double share = 1 / static_cast<double>(starts.size());
  std::vector<Found> found(starts.size());
  std::atomic<int64_t> simulations = 0;
  side_by_side(
      std::ssize(starts), [&] { return Simulator(graph_); },
      [&](Simulator& simulator, int64_t i) {
        const int64_t before = simulator.runs();
        found[at(i)] = improved(simulator, std::move(starts[at(i)]), budget, share);
        simulations += simulator.runs() - before;
      });
  simulations_elsewhere_ += simulations;
  for (Found& each : found)
    if (each.cost.peak <= budget && (!best || better(each, *best))) best = std::move(each);
  LocalSearch local(graph_, simulator_, std::move(best->saving), budget);
  for (size_t i = 0; i < kHeats.size(); ++i)
    local.shake(static_cast<int64_t>(kShakes * effort_), work(kShakeWork),
                kHeats[i] * graph_.seconds, derive(key_, i));
  local.keep_what_fits(work(kKeepWork));
  return Found{local.saving(), local.cost()};
}

}  // namespace brim::memory::recompute
