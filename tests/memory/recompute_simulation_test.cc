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
