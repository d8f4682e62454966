// Recomputation plans: they never exceed the budget, they cost what the rules say, and they are
// near the best that trying everything finds.
#include "brim/memory/plan/recompute.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "brim/base/error.h"
#include "brim/base/parallel.h"
#include "brim/memory/plan/recompute_simulation.h"
#include "brim/memory/plan/recompute_simulator.h"
#include "brim/tests/memory/random_plans.h"
#include "brim/tests/support/instrumented.h"
#include "brim/tests/support/recompute_graphs.h"
#include "brim/tests/support/recompute_rules.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::testing;

TEST_CASE("small graphs: never above the budget, and near the best of all plans" *
          doctest::skip(is_instrumented())) {
  double gap = 0, worst = 0;
  int problems = 0, refused = 0, lowest = 0;
  for (const std::string& family : recompute_families())
    for (uint64_t seed = 0; seed < 16; ++seed) {
      CAPTURE(family);
      CAPTURE(seed);
      RecomputeGraph graph = random_recompute_graph(family, 5 + static_cast<int>(seed % 8), seed);
      auto plans = all_plans(graph);
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

TEST_CASE("what everyone knows of networks: half the bytes for a tenth of the time" *
          doctest::skip(is_instrumented())) {
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
  CHECK(plan.peak == simulate_recompute(graph, plan.fates).peak);
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
    CHECK(plan.fates == alone.fates);
    CHECK(plan.peak == alone.peak);
    CHECK(plan.least_peak == alone.least_peak);
  }
}

TEST_CASE("the same question has the same answer on any number of threads") {
  const RecomputeGraph graph = random_recompute_graph("residual", 60, 7);
  const int before = num_threads();
  std::vector<RecomputePlan> plans;
  for (int threads : {1, 2, 5}) {
    set_num_threads(threads);
    RecomputePlanner planner(graph);
    plans.push_back(planner.plan(planner.keep_all().peak / 2));
  }
  set_num_threads(before);
  for (const RecomputePlan& plan : plans) {
    CHECK(plan.fates == plans[0].fates);
    CHECK(plan.simulations == plans[0].simulations);
  }
}

TEST_CASE("a budget of nothing gets the least plan, one without bounds the whole step") {
  RecomputeGraph graph = random_recompute_graph("inception", 20, 3);
  RecomputePlanner planner(graph);
  const RecomputePlan least = planner.least(), none = planner.plan(0),
                      slow = planner.least_at_any_time();
  CHECK(slow.fits);
  CHECK(slow.peak == least.peak);
  CHECK(slow.seconds >= least.seconds);
  CHECK_FALSE(none.fits);
  CHECK(none.peak == least.peak);
  CHECK(none.least_peak == least.least_peak);
  CHECK(none.fates == least.fates);
  check_against_rules(graph, none);
  const RecomputePlan all = planner.plan(std::numeric_limits<int64_t>::max());
  CHECK(all.fits);
  CHECK(all.extra_seconds == 0);
  for (int64_t budget : {int64_t{-1}, std::numeric_limits<int64_t>::min()})
    CHECK_THROWS_WITH_AS(planner.plan(budget), doctest::Contains("expected a budget from 0, got -"),
                         ValueError);
  CHECK(planner.plan(0).peak == least.peak);  // a refusal leaves the planner as it was
}
