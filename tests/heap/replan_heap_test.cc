// The program's own heap runs full while an account moves to another planner: the move is not
// made, or made by a planner that needs no heap, and every value is there.
#include <doctest/doctest.h>

#include <new>
#include <optional>

#include "brim/memory/out_of_memory.h"
#include "brim/tests/heap/failing_heap.h"
#include "brim/tests/support/memory_script.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::testing;

namespace {

// Moves midway in a training, with the heap full once or from the `nth` allocation on; false where
// the move makes fewer.
bool survives(int64_t nth, bool stays, const MakePlanner& from, const MakePlanner& to) {
  auto account = std::make_shared<Account>(Device::cpu(), std::make_unique<HostSource>(), from);
  account->set_checking(true);
  ScriptRunner runner(account);  // compares bytes as they are dropped
  ToyTraining toy(4);
  runner.run(toy.setup());
  runner.run(toy.step({8}));
  const int64_t live = account->stats().live;
  auto fault = std::make_optional<HeapFault>(nth, HeapFault::Options{.stays = stays});
  bool moved = true;
  try {
    account->replan(to);
  } catch (const std::bad_alloc&) {
    moved = false;
  } catch (const OutOfMemory&) {  // its message had no room, and this has none
    moved = false;
  }
  const bool struck = fault->struck();
  fault.reset();
  REQUIRE((moved || struck));
  REQUIRE(account->stats().live == live);
  if (!moved) account->replan(to);
  runner.run(toy.step({8}));
  REQUIRE(account->stats().live == live);
  return struck;
}

}  // namespace

TEST_CASE("with the heap full, a move is made or not, and no value is lost") {
  ToyTraining rehearsal(4);
  auto plan = plan_of({rehearsal.setup(), rehearsal.step({8}), rehearsal.step({8})});
  const std::vector<MakePlanner> planners{planner_named("direct"), planner_named("caching"),
                                          arena_planner(plan)};
  for (const MakePlanner& from : planners)
    for (const MakePlanner& to : planners)
      for (bool stays : {false, true}) {
        CAPTURE(stays);
        int64_t nth = 1;
        while (survives(nth, stays, from, to)) ++nth;
        CHECK(nth > 5);
      }
}
