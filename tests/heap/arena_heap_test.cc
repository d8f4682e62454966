// The program's own heap runs full while the arena serves a step that it planned, or one that it
// did not: what cannot be made is refused, what is given back is given back, and the next steps
// are on the plan again.
#include <doctest/doctest.h>

#include <new>
#include <optional>

#include "brim/tests/heap/failing_heap.h"
#include "brim/tests/support/memory_script.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::testing;

namespace {

// Runs a step with the heap full once, from its `nth` allocation on, then planned steps; false
// where the step makes fewer allocations.
bool survives(int64_t nth, bool stays, const std::shared_ptr<const Plan>& plan, bool planned) {
  auto account = account_under(plan, plan->arena_bytes + (1 << 20));
  ScriptRunner runner(account);
  ToyTraining toy(4);
  runner.run(toy.setup());
  Script script = planned ? toy.step({8, 8}) : toy.evaluation(7);
  const int64_t live = account->stats().live;
  auto fault = std::make_optional<HeapFault>(nth, HeapFault::Options{.stays = stays});
  try {
    runner.run(script);
  } catch (const std::bad_alloc&) {
  }
  const bool struck = fault->struck();
  fault.reset();
  REQUIRE(account->stats().live == live);
  runner.run(toy.evaluation(7));
  const int64_t mismatches = account->stats().mismatches;
  runner.run(toy.step({8, 8}));
  runner.run(toy.step({8, 8}));
  REQUIRE(account->stats().live == live);
  REQUIRE(account->stats().mismatches == mismatches);
  return struck;
}

}  // namespace

TEST_CASE("with the heap full, the arena refuses, takes back, and goes on by its plan") {
  ToyTraining rehearsal(4);
  auto plan = plan_of({rehearsal.setup(), rehearsal.step({8, 8}), rehearsal.step({8, 8})});
  for (bool planned : {true, false})
    for (bool stays : {false, true}) {
      CAPTURE(planned);
      CAPTURE(stays);
      int64_t nth = 1;
      while (survives(nth, stays, plan, planned)) ++nth;
      CHECK(nth > 20);
    }
}
