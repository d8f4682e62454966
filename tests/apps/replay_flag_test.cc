// --replay from outside: updates that follow a plan are recorded and started again, with the same
// losses in the same bytes; where none can be, it says why.
#include "brim/tests/apps/train_program.h"

using namespace brim::testing;

namespace {

const std::string kModel = "--batch 2 --steps 6 --json -" + kSynthetic;

}  // namespace

TEST_CASE("updates are started from a recording, and nothing else changes") {
  for (const std::string& flags : {std::string(), std::string(" --precision bf16")}) {
    CAPTURE(flags);
    const std::string run = kModel + flags + " --planner arena";
    const auto plain = events_of(train(run).out),
               replayed = events_of(train(run + " --replay").out);
    CHECK(losses_of(plain).size() == 6);
    CHECK(losses_of(replayed) == losses_of(plain));
    const json done = replayed.back();
    CHECK(done["graph_steps"] == 5);  // the first is run as it is
    CHECK(done["why_no_graph"] == "");
    CHECK(done["mismatches"] == 0);
    CHECK(done["peak_live_bytes"] == done["predicted_peak_live_bytes"]);
    CHECK(done["peak_bytes"] == done["predicted_peak_bytes"]);
    CHECK(!plain.back().contains("graph_steps"));
  }
}

TEST_CASE("without planned addresses there is nothing to start") {
  const auto events = events_of(train(kModel + " --planner caching --replay").out);
  CHECK(events.back()["graph_steps"] == 0);
  CHECK(events.back()["why_no_graph"] ==
        "the caching planner promises no addresses, as the arena does");
}
