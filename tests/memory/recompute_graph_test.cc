// Graphs, budgets and decisions that cannot be are refused, by name and number; graphs with nothing
// in them are not.
#include "brim/memory/plan/recompute_graph.h"

#include <doctest/doctest.h>

#include "brim/base/error.h"
#include "brim/memory/plan/recompute.h"
#include "brim/memory/plan/recompute_simulation.h"
#include "brim/tests/support/errors.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::testing;

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
  CHECK(refusal({.values = {{.bytes = 1}}, .steps = {{.reads = {}, .or_sources = {0}}}}) ==
        "recompute: expected backward step 0 to do without what it reads, got value 0");
  CHECK(refusal({.values = {{.bytes = 1}}, .steps = {{.reads = {0}, .by_rows = {0}}}}) ==
        "recompute: expected backward step 0 to read what has rows by rows, got value 0");
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
