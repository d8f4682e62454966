// The dynamic program over the chain of segments: the plans that it makes cost what it says, and
// never more than it was given.
#include "brim/memory/plan/recompute_chain.h"

#include <doctest/doctest.h>

#include "brim/memory/plan/recompute_simulator.h"
#include "brim/tests/memory/random_plans.h"
#include "brim/tests/support/recompute_graphs.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::testing;

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
      recompute::SegmentTable table(flat, 1'000'000);
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
