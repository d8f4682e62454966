// Plans that may also hold saved values in host memory: they cost what the rules say, stay within
// the budget and the host, are near the best of all plans, and are those of before where there is
// no host.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <limits>

#include "brim/base/error.h"
#include "brim/memory/plan/recompute.h"
#include "brim/memory/plan/recompute_flat.h"
#include "brim/memory/plan/recompute_simulation.h"
#include "brim/tests/memory/random_plans.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/instrumented.h"
#include "brim/tests/support/recompute_graphs.h"
#include "brim/tests/support/recompute_rules.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::testing;

namespace {

constexpr int64_t kRoom = int64_t{1} << 60;  // in the host

/// With a host, to which most values may go, also such as may not be dropped.
RecomputeGraph with_host(RecomputeGraph graph, double bytes_per_second, RandomStream& random,
                         int64_t room = kRoom) {
  graph.host_bytes_per_second = bytes_per_second;
  graph.host_bytes = room;
  for (auto& value : graph.values) value.may_offload = value.producer >= 0 && random.below(5) > 0;
  return graph;
}

/// All values of a network.
RecomputeGraph network_with_host(const std::string& name, int64_t batch, double bytes_per_second) {
  RecomputeGraph graph = network_graph(name, batch);
  graph.host_bytes_per_second = bytes_per_second;
  graph.host_bytes = kRoom;
  for (auto& value : graph.values) value.may_offload = value.may_drop;
  return graph;
}

int64_t values_with_choice(const RecomputeGraph& graph) {
  const recompute::FlatGraph flat(graph);
  int64_t count = 0;
  for (int32_t v = 0; v < flat.values(); ++v) count += flat.may_leave(v);
  return count;
}

/// Some kept, some dropped, some offloaded.
std::vector<Fate> random_fates(const RecomputeGraph& graph, RandomStream& random) {
  const recompute::FlatGraph flat(graph);
  std::vector<Fate> saving = flat.all_kept();
  for (int32_t v = 0; v < flat.values(); ++v) {
    const Fate fate = recompute::kFates[random.below(recompute::kFates.size())];
    if (flat.may_be(v, fate)) saving[static_cast<size_t>(v)] = fate;
  }
  return flat.to_graph(saving);
}

}  // namespace

TEST_CASE("the moments of a step that offloads, by hand") {
  // Each op makes 10 bytes in a second and reads those before it; so do the steps, in reverse,
  // and a copy takes 2 seconds.
  RecomputeGraph graph{.host_bytes_per_second = 5, .host_bytes = 40};
  for (int32_t op = 0; op < 4; ++op) {
    graph.values.push_back({.bytes = 10, .producer = op, .may_offload = true});
    graph.ops.push_back({.seconds = 1});
    if (op > 0) graph.ops.back().reads = {op - 1};
    graph.steps.push_back({.seconds = 1, .reads = {3 - op}});
  }
  const std::vector<Fate> saving(4, Fate::offload);
  auto timeline = recompute_timeline(graph, saving);
  std::vector<std::vector<int64_t>> lives;
  for (const auto& instance : timeline.instances)
    lives.push_back({instance.value, instance.born, instance.last});
  // Value 0 is dead after op 1, value 1 after op 2; values 2 and 3 are both dead after op 3, so
  // there the first two are waited for. The last two are wanted at once and stay. While step 0 runs
  // value 1 comes back, and value 0 in the next one.
  CHECK(lives == std::vector<std::vector<int64_t>>{
                     {0, 0, 3}, {1, 1, 3}, {2, 2, 5}, {3, 3, 4}, {1, 4, 6}, {0, 5, 7}});
  const RecomputeCost cost = simulate_recompute(graph, saving);
  CHECK(cost.peak == 40);
  CHECK(cost.host_peak == 40);
  CHECK(cost.replays == 0);
  // Copies out run from second 2 to 10, and forward would have ended at 4. Value 1 is back at 12,
  // just in time; value 0, whose copy begins then, at 14, when compute has stood there since 13.
  CHECK(cost.wait_seconds == 6 + 1);
  CHECK(cost.extra_seconds == cost.wait_seconds);
}

TEST_CASE("random decisions on random graphs cost what the rules say") {
  RandomStream random(RandomKey{17});
  int offloads = 0;
  for (const std::string& family : recompute_families())
    for (uint64_t seed = 0; seed < 150; ++seed) {
      CAPTURE(family);
      CAPTURE(seed);
      const RecomputeGraph graph =
          with_host(random_recompute_graph(family, 2 + static_cast<int>(random.below(30)), seed),
                    1 + static_cast<double>(random.below(30)), random);
      const std::vector<Fate> saving = random_fates(graph, random);
      offloads += std::ranges::count(saving, Fate::offload) > 1;
      SlowSimulation slow(graph, saving);
      const RecomputeCost cost = simulate_recompute(graph, saving);
      REQUIRE(cost.peak == slow.peak());
      REQUIRE(cost.extra_seconds == slow.extra_seconds());
      REQUIRE(cost.wait_seconds == slow.wait_seconds());
      REQUIRE(cost.replays == slow.replays());
      REQUIRE(cost.host_peak == slow.host_bytes());
    }
  CHECK(offloads > 500);
}

TEST_CASE("small graphs: never above the budget or the host, and near the best of all plans" *
          doctest::skip(is_instrumented())) {
  RandomStream random(RandomKey{23});
  double gap = 0, worst = 0;
  int problems = 0, refused = 0, lowest = 0, offloading = 0;
  for (const std::string& family : recompute_families())
    for (uint64_t seed = 0; seed < 9; ++seed) {
      RecomputeGraph graph = random_recompute_graph(family, 3 + static_cast<int>(seed % 5), seed);
      const double speed = std::array{2.0, 8.0, 30.0}[seed % 3];
      graph = with_host(std::move(graph), speed, random, seed % 2 == 0 ? kRoom : 60);
      if (values_with_choice(graph) > 8) continue;
      CAPTURE(family);
      CAPTURE(seed);
      const auto plans = all_plans(graph);
      RecomputePlanner planner(graph, {.effort = 0.5});
      const int64_t most = plans[0].first, least = std::ranges::min(plans).first;
      CHECK(planner.keep_all().bound_peak <= least);
      for (int part : {-1, 0, 1, 3, 6, 9}) {
        const int64_t budget = least + (most - least) * part / 10;
        CAPTURE(budget);
        const RecomputePlan plan = planner.plan(budget);
        check_against_rules(graph, plan);
        const double best = best_seconds(plans, budget);
        CHECK(plan.bound_seconds <= best * (1 + 1e-12));
        CHECK(plan.fits == (plan.peak <= budget));
        if (best == std::numeric_limits<double>::infinity()) {
          CHECK_FALSE(plan.fits);
          continue;
        }
        ++problems;
        if (!plan.fits) {
          ++refused;
          continue;
        }
        const double over = (plan.extra_seconds - best) / step_seconds(graph);
        gap += over;
        worst = std::max(worst, over);
        lowest += over <= 1e-12;
        offloading += plan.offloaded > 0;
      }
    }
  MESSAGE("problems ", problems, ", solved best ", lowest, ", refused ", refused, ", offloading ",
          offloading, ", mean gap % of a step ", 100 * gap / problems, ", worst ", 100 * worst);
  CHECK(problems > 100);
  CHECK(offloading > problems / 6);
  CHECK(refused == 0);
  CHECK(gap / problems < 0.03);
}

TEST_CASE("a host that nothing can be copied to changes no plan, and no simulation") {
  for (const std::string& family : recompute_families()) {
    CAPTURE(family);
    const RecomputeGraph alone = random_recompute_graph(family, 24, 7);
    RecomputeGraph beside = alone;
    for (auto& value : beside.values) value.may_offload = value.producer >= 0;
    beside.host_bytes = kRoom;  // and no way there
    RecomputePlanner expected(alone, {.effort = 0.3}), planner(beside, {.effort = 0.3});
    const int64_t most = planner.keep_all().peak, least = planner.least().peak;
    CHECK(expected.keep_all().peak == most);
    CHECK(expected.least().peak == least);
    for (int part : {0, 2, 5, 8}) {
      CAPTURE(part);
      const int64_t budget = least + (most - least) * part / 10;
      const RecomputePlan without = expected.plan(budget), plan = planner.plan(budget);
      CHECK(plan.fates == without.fates);
      CHECK(plan.peak == without.peak);
      CHECK(plan.extra_seconds == without.extra_seconds);
      CHECK(plan.simulations == without.simulations);
      CHECK(plan.offloaded == 0);
      CHECK(plan.wait_seconds == 0);
    }
  }
}

TEST_CASE("a fast host takes what would be rebuilt, and no host makes a plan worse" *
          doctest::skip(is_instrumented())) {
  for (const char* network : {"resnet50", "densenet121", "unet"}) {
    CAPTURE(network);
    RecomputePlanner alone(network_graph(network, 64), {.effort = 0.2});
    const int64_t most = alone.keep_all().peak;
    const RecomputeGraph slow = network_with_host(network, 64, 1e8),
                         fast = network_with_host(network, 64, 2e10);
    RecomputePlanner with_slow(slow, {.effort = 0.2}), with_fast(fast, {.effort = 0.2});
    for (int share : {60, 40}) {
      CAPTURE(share);
      const int64_t budget = most / 100 * share;
      const RecomputePlan without = alone.plan(budget);
      const RecomputePlan a_little = with_slow.plan(budget), much = with_fast.plan(budget);
      check_against_rules(slow, a_little);
      check_against_rules(fast, much);
      CHECK(a_little.fits);
      CHECK(much.fits);
      CHECK(a_little.extra_seconds <= without.extra_seconds);
      CHECK(much.extra_seconds < 0.5 * without.extra_seconds);
      CHECK(much.offloaded > 0);
      CHECK(much.bound_seconds <= much.extra_seconds);
    }
  }
}

TEST_CASE("what cannot be dropped may be offloaded, as far as the host has room") {
  RecomputeGraph graph{.host_bytes_per_second = 100};
  for (int32_t op = 0; op < 6; ++op) {
    graph.values.push_back({.bytes = 10, .producer = op, .may_offload = true});
    graph.ops.push_back({.seconds = 1});
    graph.steps.push_back({.seconds = 1, .reads = {5 - op}});
  }
  auto least = [&](int64_t room) {
    graph.host_bytes = room;
    const RecomputePlan plan = RecomputePlanner(graph).least();
    CHECK(plan.fits);
    CHECK(plan.host_peak <= room);
    check_against_rules(graph, plan);
    return plan.peak;
  };
  // Two may be under way until forward ends; the third makes the first leave.
  CHECK(least(0) == 60);
  CHECK(least(29) == 60);
  CHECK(least(30) == 50);
  CHECK(least(60) == 30);
}

TEST_CASE("what cannot be is refused with its number") {
  auto refusal = [](const RecomputeGraph& graph) {
    return error_text<ValueError>([&] { check_graph(graph); });
  };
  CHECK(refusal({.values = {{.bytes = 1, .may_offload = true}}}) ==
        "recompute: expected that value 0, a source, may not be offloaded");
  CHECK(refusal({.host_bytes_per_second = -1}) ==
        "recompute: expected finite bytes per second from 0 of the host, got -1");
  CHECK(refusal({.host_bytes = -1}) == "recompute: expected bytes from 0 of the host, got -1");
  RecomputeGraph graph{.values = {{.bytes = 8, .producer = 0, .may_offload = true}},
                       .ops = {{}},
                       .steps = {{.reads = {0}}},
                       .host_bytes_per_second = 1,
                       .host_bytes = 7};
  const std::vector offloaded{Fate::offload};
  CHECK(error_text<ValueError>([&] { simulate_recompute(graph, offloaded); }) ==
        "recompute: expected at most 7 bytes offloaded, as many as the host has, got 8");
  graph.host_bytes = 8;
  CHECK(simulate_recompute(graph, offloaded).host_peak == 8);
  graph.steps[0].reads = {};  // backward does not want it
  CHECK(error_text<ValueError>([&] { simulate_recompute(graph, offloaded); }) ==
        "recompute: expected value 0 to be kept, which may not be offloaded");
}
