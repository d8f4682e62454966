// What a simulation of a step says of peak, time and lives is what its rules say, by a second one
// that knows only them, and by hand.
#include "brim/memory/plan/recompute_simulation.h"

#include <doctest/doctest.h>

#include "brim/tests/memory/random_plans.h"
#include "brim/tests/support/recompute_graphs.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::testing;

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

/// Source 0 -> op 0 -> value 1 -> op 1 -> value 2 -> op 2 -> value 3, whose rows all follow from
/// those before but for value 1.
RecomputeGraph graph_with_rows() {
  return {.values = {{.bytes = 1000},
                     {.bytes = 10, .producer = 0, .may_drop = true},
                     {.bytes = 20, .producer = 1, .may_drop = true, .row_group = 0},
                     {.bytes = 40, .producer = 2, .may_drop = true, .row_group = 0}},
          .ops = {{.replay_seconds = 100, .reads = {0}},
                  {.replay_seconds = 50, .row_seconds = 1, .reads = {1}},
                  {.replay_seconds = 60, .row_seconds = 2, .reads = {2}}}};
}

TEST_CASE("what a step reads by rows is not there as a whole, by hand") {
  RecomputeGraph graph = graph_with_rows();
  graph.steps = {{.reads = {3}, .by_rows = {3}, .held = 200},
                 {.reads = {3}, .by_rows = {3}, .held = 400},
                 {.reads = {1}, .held = 600}};
  auto steps = [&](Fate one, Fate two, Fate three) {
    std::vector<int64_t> result;
    for (const auto& moment :
         recompute_timeline(graph, std::vector{Fate::keep, one, two, three}).moments)
      if (moment.kind != RecomputeTimeline::Kind::forward) result.push_back(moment.bytes - 1000);
    return result;
  };
  auto seconds = [&](Fate one, Fate two, Fate three) {
    return simulate_recompute(graph, std::vector{Fate::keep, one, two, three}).extra_seconds;
  };
  using List = std::vector<int64_t>;
  constexpr Fate keep = Fate::keep, retain = Fate::retain, remake = Fate::remake;
  CHECK(steps(keep, keep, keep) == List{250, 450, 610});
  CHECK(seconds(keep, keep, keep) == 0);
  // Rows from value 2; at the last step that reads value 3 its bytes count.
  CHECK(steps(keep, keep, retain) == List{230, 470, 610});
  CHECK(seconds(keep, keep, retain) == 2 * 2);
  // Through value 2, which no step reads, from value 1.
  CHECK(steps(keep, retain, retain) == List{210, 450, 610});
  CHECK(seconds(keep, retain, retain) == 2 * (1 + 2));
  // Value 1 has no rows: it is made again as a whole, once or for each step.
  CHECK(steps(retain, retain, retain) == List{10, 210, 450, 610});
  CHECK(seconds(retain, retain, retain) == 100 + 2 * (1 + 2));
  CHECK(seconds(remake, remake, remake) == 3 * 100 + 2 * (1 + 2));
  // Value 2 will be wanted as a whole itself: where it is retained it is made now, and else by
  // rows.
  graph.steps.push_back({.reads = {2}, .held = 800});
  CHECK(steps(keep, retain, retain) == List{30, 230, 470, 630, 820});
  CHECK(seconds(keep, retain, retain) == 50 + 2 * 2);
  CHECK(seconds(keep, remake, retain) == 2 * (1 + 2) + 50);
}

TEST_CASE("a step that does with what a value is made from, by hand") {
  RecomputeGraph graph = graph_with_rows();
  graph.steps = {{.reads = {3}, .or_sources = {3}, .held = 200}};
  using Saving = std::vector<Fate>;
  constexpr Fate keep = Fate::keep, retain = Fate::retain;
  CHECK(simulate_recompute(graph, Saving{keep, keep, keep, keep}).peak == 1240);
  CHECK(simulate_recompute(graph, Saving{keep, keep, keep, retain}).peak == 1220);
  CHECK(simulate_recompute(graph, Saving{keep, keep, keep, retain}).extra_seconds == 0);
  // Its source is made again as a whole.
  CHECK(simulate_recompute(graph, Saving{keep, keep, retain, retain}).extra_seconds == 50);
  CHECK(simulate_recompute(graph, Saving{keep, keep, retain, retain}).peak == 1220);
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
    CHECK(timeline.moments.size() ==
          graph.ops.size() + graph.steps.size() + static_cast<size_t>(replays));
    for (const auto& instance : timeline.instances) {
      const auto& made = timeline.moments[static_cast<size_t>(instance.born)];
      CHECK(made.kind != RecomputeTimeline::Kind::backward);
      CHECK(made.number == graph.values[static_cast<size_t>(instance.value)].producer);
      CHECK(instance.last >= instance.born);
    }
  }
}
