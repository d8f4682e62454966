// Recomputation plans: what they say is what happens, by a second simulation that knows only the
// rules; they never exceed the budget; and they are near the best that trying everything finds.
#include "brim/memory/plan/recompute.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "brim/base/error.h"
#include "brim/base/random.h"
#include "brim/memory/plan/recompute_bound.h"
#include "brim/memory/plan/recompute_chain.h"
#include "brim/memory/plan/recompute_simulation.h"
#include "brim/memory/plan/recompute_simulator.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/recompute_graphs.h"
#include "brim/tests/support/recompute_optimum.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::testing;

namespace {

/// The rules of recompute_simulation.h, one after another, with no thought of time.
class SlowSimulation {
 public:
  SlowSimulation(const RecomputeGraph& graph, const std::vector<Fate>& saving)
      : graph_(graph), saving_(saving) {
    for (size_t op = 0; op < graph.ops.size(); ++op) run_forward(static_cast<int32_t>(op));
    for (const auto& step : graph.steps) run_backward(step);
  }

  int64_t peak() const {
    int64_t peak = 0, always = graph_.fixed_bytes;
    for (const auto& value : graph_.values) always += value.producer < 0 ? value.bytes : 0;
    for (size_t moment = 0; moment < beside_.size(); ++moment) {
      int64_t bytes = always + beside_[moment];
      for (const Instance& instance : instances_)
        if (instance.born <= moment && moment <= instance.last)
          bytes += graph_.values[static_cast<size_t>(instance.value)].bytes;
      peak = std::max(peak, bytes);
    }
    return peak;
  }
  double extra_seconds() const { return extra_seconds_; }
  int64_t replays() const { return replays_; }

 private:
  struct Instance {
    int32_t value;
    size_t born, last;
  };

  const RecomputeGraph::Value& value(int32_t v) const {
    return graph_.values[static_cast<size_t>(v)];
  }
  bool is_source(int32_t v) const { return value(v).producer < 0; }
  bool there(int32_t v) const { return is_source(v) || now_.contains(v); }
  size_t moment() const { return beside_.size() - 1; }

  std::vector<int32_t> outputs(int32_t op) const {
    std::vector<int32_t> made;
    for (size_t v = 0; v < graph_.values.size(); ++v)
      if (graph_.values[v].producer == op) made.push_back(static_cast<int32_t>(v));
    return made;
  }
  const std::vector<int32_t>& replay_reads(int32_t op) const {
    const auto& forward = graph_.ops[static_cast<size_t>(op)];
    return forward.replay_reads ? *forward.replay_reads : forward.reads;
  }

  void read(const std::vector<int32_t>& values) {
    for (int32_t v : values)
      if (!is_source(v)) instances_[now_.at(v)].last = moment();
  }
  void make(int32_t v) {
    now_[v] = instances_.size();
    instances_.push_back({v, moment(), moment()});
  }
  /// In forward all values can be read; the first backward step finds only what is kept.
  void run_forward(int32_t op) {
    beside_.push_back(graph_.ops[static_cast<size_t>(op)].scratch);
    read(graph_.ops[static_cast<size_t>(op)].reads);
    for (int32_t v : outputs(op)) make(v);
    if (op + 1 < static_cast<int32_t>(graph_.ops.size())) return;
    std::erase_if(now_, [&](const auto& entry) {
      return saving_[static_cast<size_t>(entry.first)] != Fate::keep;
    });
  }
  void need(const std::vector<int32_t>& values, std::set<int32_t>& ops) const {
    for (int32_t v : values)
      if (!there(v) && ops.insert(value(v).producer).second)
        need(replay_reads(value(v).producer), ops);
  }
  void run_backward(const RecomputeGraph::BackwardStep& step) {
    std::set<int32_t> ops;
    need(step.reads, ops);
    for (int32_t op : ops) replay(op, step.held_before);
    beside_.push_back(step.held);
    read(step.reads);
    std::erase_if(now_, [&](const auto& entry) {
      return saving_[static_cast<size_t>(entry.first)] == Fate::remake;
    });
  }
  void replay(int32_t op, int64_t held) {
    const auto& forward = graph_.ops[static_cast<size_t>(op)];
    beside_.push_back(held + forward.replay_scratch);
    read(replay_reads(op));
    extra_seconds_ += forward.replay_seconds;
    ++replays_;
    for (int32_t v : outputs(op)) {
      if (!value(v).may_drop) continue;
      if (there(v))
        beside_.back() += value(v).bytes;
      else
        make(v);
    }
  }

  const RecomputeGraph& graph_;
  const std::vector<Fate>& saving_;
  std::map<int32_t, size_t> now_;  // instances that can be read, by value
  std::vector<Instance> instances_;
  std::vector<int64_t> beside_;  // by moment: bytes that are no values
  double extra_seconds_ = 0;
  int64_t replays_ = 0;
};

size_t at(int64_t i) { return static_cast<size_t>(i); }

std::vector<int32_t> droppable(const RecomputeGraph& graph) {
  std::vector<int32_t> values;
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].may_drop) values.push_back(static_cast<int32_t>(v));
  return values;
}

std::vector<Fate> random_saving(const RecomputeGraph& graph, RandomStream& random) {
  std::vector<Fate> saving(graph.values.size(), Fate::keep);
  for (int32_t v : droppable(graph))
    saving[static_cast<size_t>(v)] = static_cast<Fate>(random.below(3));
  return saving;
}

void check_against_rules(const RecomputeGraph& graph, const RecomputePlan& plan) {
  SlowSimulation slow(graph, plan.saving);
  CHECK(plan.peak == slow.peak());
  CHECK(plan.extra_seconds == slow.extra_seconds());
  CHECK(plan.seconds == step_seconds(graph) + slow.extra_seconds());
}

}  // namespace

TEST_CASE("random decisions on random graphs cost what the rules say") {
  RandomStream random(RandomKey{3});
  for (const std::string& family : recompute_families())
    for (uint64_t seed = 0; seed < 150; ++seed) {
      CAPTURE(family);
      CAPTURE(seed);
      RecomputeGraph graph =
          random_recompute_graph(family, 2 + static_cast<int>(random.below(30)), seed);
      std::vector<Fate> saving = random_saving(graph, random);
      SlowSimulation slow(graph, saving);
      RecomputeCost cost = simulate_recompute(graph, saving);
      REQUIRE(cost.peak == slow.peak());
      REQUIRE(cost.extra_seconds == slow.extra_seconds());
      REQUIRE(cost.replays == slow.replays());
    }
}

TEST_CASE("small graphs: never above the budget, and near the best of all plans") {
  double gap = 0, worst = 0;
  int problems = 0, refused = 0, lowest = 0;
  for (const std::string& family : recompute_families())
    for (uint64_t seed = 0; seed < 16; ++seed) {
      CAPTURE(family);
      CAPTURE(seed);
      RecomputeGraph graph = random_recompute_graph(family, 5 + static_cast<int>(seed % 8), seed);
      auto plans = all_recompute_plans(graph);
      RecomputePlanner planner(graph, {.effort = 0.5});
      const int64_t most = plans[0].first, least = std::ranges::min(plans).first;
      CHECK(planner.keep_all().peak == most);
      CHECK(planner.keep_all().bound_peak <= least);
      for (int part : {-1, 0, 1, 3, 6, 9}) {
        const int64_t budget = least + (most - least) * part / 10;
        CAPTURE(budget);
        RecomputePlan plan = planner.plan(budget);
        check_against_rules(graph, plan);
        const double best = best_seconds(plans, budget);
        CHECK(plan.bound_seconds <= best * (1 + 1e-12));
        CHECK(plan.fits == (plan.peak <= budget));
        CHECK(plan.least_peak >= least);
        if (best == std::numeric_limits<double>::infinity()) {
          CHECK_FALSE(plan.fits);
          continue;
        }
        ++problems;
        if (!plan.fits) {
          ++refused;
          continue;
        }
        double over = (plan.extra_seconds - best) / step_seconds(graph);
        gap += over;
        worst = std::max(worst, over);
        lowest += over <= 1e-12;
      }
    }
  MESSAGE("problems ", problems, ", solved best ", lowest, ", refused ", refused,
          ", mean gap % of a step ", 100 * gap / problems, ", worst ", 100 * worst);
  CHECK(refused == 0);
  CHECK(gap / problems < 0.03);
}

TEST_CASE("the moments of a step of two ops, by hand") {
  // Source 0 -> op 0 -> value 1 -> op 1 -> value 2; backward reads value 2, then 1.
  RecomputeGraph graph{
      .values = {{.bytes = 1000}, {10, 0, true}, {20, 1, true}},
      .ops = {{.seconds = 1, .replay_seconds = 2, .scratch = 3, .replay_scratch = 4, .reads = {0}},
              {.seconds = 1, .replay_seconds = 5, .scratch = 6, .replay_scratch = 7, .reads = {1}}},
      .steps = {{.seconds = 3, .reads = {2}, .held_before = 100, .held = 200},
                {.seconds = 3, .reads = {1}, .held_before = 300, .held = 400}},
      .fixed_bytes = 5000};
  auto bytes = [&](Fate first, Fate second) {
    std::vector<int64_t> result;
    for (const auto& moment :
         recompute_timeline(graph, std::vector{Fate::keep, first, second}).moments)
      result.push_back(moment.bytes - 6000);
    return result;
  };
  using List = std::vector<int64_t>;
  CHECK(bytes(Fate::keep, Fate::keep) == List{13, 36, 230, 410});
  CHECK(bytes(Fate::keep, Fate::remake) == List{13, 36, 137, 230, 410});
  // Value 1 is rebuilt for value 2. Retained, it stays for its own step; else it is rebuilt twice.
  CHECK(bytes(Fate::retain, Fate::retain) == List{13, 36, 114, 137, 230, 410});
  CHECK(bytes(Fate::remake, Fate::retain) == List{13, 36, 114, 137, 220, 314, 410});
  CHECK(simulate_recompute(graph, std::vector{Fate::keep, Fate::remake, Fate::remake})
            .extra_seconds == 9);
}

TEST_CASE("the chain's peak is never below the true one, and its seconds are the true ones") {
  RandomStream random(RandomKey{11});
  int plans = 0;
  for (const std::string& family : recompute_families())
    for (uint64_t seed = 0; seed < 40; ++seed) {
      CAPTURE(family);
      CAPTURE(seed);
      RecomputeGraph graph =
          random_recompute_graph(family, 4 + static_cast<int>(random.below(40)), seed);
      recompute::FlatGraph flat(graph);
      recompute::Simulator simulator(flat);
      recompute::SegmentTable table(flat, simulator, 1'000'000);
      recompute::Chain chain(flat, table);
      const int64_t most = simulator.run(flat.all_kept()).peak;
      for (int part = 4; part <= 10; ++part) {
        auto plan = chain.plan(most * part / 10);
        if (!plan) continue;
        ++plans;
        SlowSimulation slow(graph, flat.to_graph(plan->saving));
        REQUIRE(plan->peak <= most * part / 10);
        REQUIRE(flat.fixed + plan->peak >= slow.peak());
        REQUIRE(plan->seconds == doctest::Approx(slow.extra_seconds()).epsilon(1e-9));
      }
    }
  CHECK(plans > 500);
}

TEST_CASE("what everyone knows of networks: half the bytes for a tenth of the time") {
  for (const char* network : {"resnet50", "mobilenet_v2", "densenet121", "unet"}) {
    CAPTURE(network);
    RecomputeGraph graph = network_graph(network, 64);
    RecomputePlanner planner(graph, {.effort = 0.3});
    const int64_t most = planner.keep_all().peak;
    for (int share : {70, 50, 35}) {
      CAPTURE(share);
      RecomputePlan plan = planner.plan(most / 100 * share);
      CHECK(plan.fits);
      CHECK(plan.peak <= most / 100 * share);
      CHECK(plan.bound_seconds <= plan.extra_seconds);
      check_against_rules(graph, plan);
      if (share == 50) CHECK(plan.extra_seconds < 0.12 * step_seconds(graph));
    }
    RecomputePlan least = planner.least();
    CHECK(least.fits);
    CHECK(least.peak <= least.least_peak);
    CHECK(least.peak >= least.bound_peak);
    RecomputePlan below = planner.plan(least.bound_peak - 1);
    CHECK_FALSE(below.fits);
    CHECK(below.bound_seconds == std::numeric_limits<double>::infinity());
  }
}

TEST_CASE("ten thousand ops are planned, and rebuilt to any depth") {
  RecomputeGraph graph = network_graph("chain10000", 16);
  std::vector<Fate> saving(graph.values.size(), Fate::keep);
  for (int32_t v : droppable(graph)) saving[static_cast<size_t>(v)] = Fate::retain;
  RecomputeCost cost = simulate_recompute(graph, saving);
  CHECK(cost.replays == static_cast<int64_t>(graph.ops.size()));
  RecomputePlanner planner(graph, {.effort = 0.1});
  const int64_t most = planner.keep_all().peak;
  RecomputePlan plan = planner.plan(most / 5);
  CHECK(plan.fits);
  CHECK(plan.peak <= most / 5);
  CHECK(plan.extra_seconds < 0.35 * step_seconds(graph));
  CHECK(plan.peak == simulate_recompute(graph, plan.saving).peak);
}

TEST_CASE("the front falls in bytes and rises in seconds, from all kept to the least") {
  RecomputeGraph graph = random_recompute_graph("residual", 30, 2);
  RecomputePlanner planner(graph);
  auto front = planner.front(12);
  REQUIRE(front.size() > 3);
  CHECK(front.front().extra_seconds == 0);
  CHECK(front.front().peak == planner.keep_all().peak);
  CHECK(front.back().peak <= front.back().least_peak);
  for (size_t i = 0; i < front.size(); ++i) {
    check_against_rules(graph, front[i]);
    if (i == 0) continue;
    CHECK(front[i].peak < front[i - 1].peak);
    CHECK(front[i].extra_seconds > front[i - 1].extra_seconds);
  }
}

TEST_CASE("the same question has the same answer, whatever was asked before") {
  RecomputeGraph graph = random_recompute_graph("dense", 40, 5);
  RecomputePlanner planner(graph);
  const int64_t most = planner.keep_all().peak;
  for (int64_t budget : {most * 7 / 10, most * 9 / 10, most * 7 / 10}) {
    RecomputePlan plan = planner.plan(budget), alone = plan_recompute(graph, budget);
    CHECK(plan.saving == alone.saving);
    CHECK(plan.peak == alone.peak);
    CHECK(plan.least_peak == alone.least_peak);
  }
}

TEST_CASE("a timeline says what lives at each moment") {
  RandomStream random(RandomKey{5});
  for (uint64_t seed = 0; seed < 50; ++seed) {
    RecomputeGraph graph = random_recompute_graph("any", 20, seed);
    std::vector<Fate> saving = random_saving(graph, random);
    RecomputeTimeline timeline = recompute_timeline(graph, saving);
    RecomputeCost cost = simulate_recompute(graph, saving);
    int64_t peak = 0, replays = 0;
    for (const auto& moment : timeline.moments) {
      peak = std::max(peak, moment.bytes);
      replays += moment.kind == RecomputeTimeline::Kind::replay;
    }
    CHECK(peak == cost.peak);
    CHECK(replays == cost.replays);
    CHECK(timeline.moments.size() == graph.ops.size() + graph.steps.size() + at(replays));
    for (const auto& instance : timeline.instances) {
      const auto& made = timeline.moments[at(instance.born)];
      CHECK(made.kind != RecomputeTimeline::Kind::backward);
      CHECK(made.number == graph.values[at(instance.value)].producer);
      CHECK(instance.last >= instance.born);
    }
  }
}

TEST_CASE("nothing, and nothing that may be dropped") {
  RecomputePlan none = plan_recompute({}, 0);
  CHECK(none.fits);
  CHECK(none.peak == 0);
  RecomputeGraph kept{.values = {{.bytes = 8, .producer = 0}},
                      .ops = {{.seconds = 1}},
                      .steps = {{.seconds = 1, .reads = {0}, .held = 4}}};
  CHECK(plan_recompute(kept, 12).fits);
  RecomputePlan refused = plan_recompute(kept, 11);
  CHECK_FALSE(refused.fits);
  CHECK(refused.peak == 12);
  CHECK(refused.bound_peak == 12);
  RecomputeGraph backward_only{.steps = {{.held = 7}}};
  CHECK_FALSE(plan_recompute(backward_only, 6).fits);
  CHECK(plan_recompute(backward_only, 7).fits);
}

TEST_CASE("what cannot be is refused with its number") {
  auto refusal = [](const RecomputeGraph& graph) {
    return error_text<ValueError>([&] { check_graph(graph); });
  };
  CHECK(refusal({.values = {{.bytes = -1}}}) ==
        "recompute: expected bytes from 0 of value 0, got -1");
  CHECK(refusal({.values = {{.bytes = 1, .producer = 2}}}) ==
        "recompute: expected a producer from -1 to -1 of value 0, got 2");
  CHECK(refusal({.values = {{.bytes = 1, .may_drop = true}}}) ==
        "recompute: expected that value 0, a source, may not be dropped");
  CHECK(refusal({.values = {{1, 0}}, .ops = {{.reads = {0}}}}) ==
        "recompute: expected op 0 to read what earlier ops made, got value 0 of op 0");
  CHECK(refusal({.values = {{1, 0, true}}, .ops = {{.replay_reads = {{0}}}}}) ==
        "recompute: expected a replay of op 0 to read what is there, got value 0 of op 0");
  CHECK(refusal({.ops = {{.seconds = -1}}}) ==
        "recompute: expected finite seconds from 0 of op 0, got -1");
  CHECK(refusal({.steps = {{.reads = {3}}}}) ==
        "recompute: expected backward step 0 to read values from 0 to -1, got 3");
  CHECK(refusal({.fixed_bytes = int64_t{1} << 62}) ==
        "recompute: expected bytes that add up to less than 2^62, got more by the fixed part 0");
  CHECK(error_text<ValueError>([] { plan_recompute({}, -1); }) ==
        "recompute: expected a budget from 0, got -1");
  CHECK(error_text<ValueError>([] { plan_recompute({}, 0, {.effort = 0}); }) ==
        "recompute: expected an effort above 0 and up to 1000, got 0");
  RecomputeGraph graph{.values = {{1, 0}}, .ops = {{}}};
  CHECK(error_text<ValueError>([&] { simulate_recompute(graph, {}); }) ==
        "recompute: expected a decision for each of 1 values, got 0");
  CHECK(error_text<ValueError>([&] { simulate_recompute(graph, std::vector{Fate::remake}); }) ==
        "recompute: expected value 0 to be kept, which may not be dropped");
}
