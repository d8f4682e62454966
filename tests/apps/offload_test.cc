// --offload of plan and train: what goes to the host is said, changes no number, and what was
// chosen is kept with a plan.
#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim::testing;

namespace {

const std::string kRun =
    " --data synthetic --model resnet20 --size 32 --classes 10 --batch 16 --threads 1 ";

json plan(const std::string& arguments) {
  CAPTURE(arguments);
  Finished run = run_command(kPlan + "--json - --optimizer sgd" + kRun + arguments);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  return json::parse(run.out);
}

std::vector<json> run(const std::string& arguments) {
  CAPTURE(arguments);
  Finished end = train("--json - --steps 3" + kRun + arguments);
  CAPTURE(end.err);
  REQUIRE(end.code == 0);
  return events_of(end.out);
}

/// A budget in the middle of what everything kept takes and what must be there.
std::string budget() {
  static const int64_t bytes = [] {
    const json all = plan("--recompute off");
    return all["predicted_peak_bytes"].get<int64_t>() * 6 / 10;
  }();
  return "--budget " + std::to_string(bytes) + " ";
}

}  // namespace

TEST_CASE("plan says what is offloaded, in bytes and in time") {
  const json moved = plan(budget() + "--offload auto --recompute off");
  CHECK(moved["offloaded"] > 0);
  CHECK(moved["offloaded_bytes"] > 0);
  CHECK(moved["dropped"] == 0);
  CHECK(moved["relative_time"] >= 1.0);
  const json dropped = plan(budget());
  CHECK(dropped["dropped"] > 0);
  CHECK(dropped["offloaded"] == 0);
  CHECK(dropped["offloaded_bytes"] == 0);
  const json either = plan(budget() + "--offload auto");
  CHECK(either["offloaded"] > 0);
  CHECK(either["relative_time"] <= dropped["relative_time"]);
  for (const json& one : {moved, dropped, either}) {
    CHECK(one["relative_time_bound"] >= 1.0);
    CHECK(one["relative_time_bound"] <= one["relative_time"]);
  }
  REQUIRE(!either["ladder"].empty());
  bool has_rung = false;
  for (const json& rung : either["ladder"])
    for (const json& remedy : rung["remedies"])
      has_rung |= remedy.get<std::string>().starts_with("offload ");
  CHECK_FALSE(has_rung);  // it is in force already
}

TEST_CASE(
    "plan has all keys, and its time is that of everything kept, also where nothing is planned") {
  const json kept = plan("--recompute off"), free = plan("--recompute free");
  for (const json& said : {kept, free}) {
    CHECK(said["offloaded"] == 0);
    CHECK(said["solve_seconds"] == 0.0);
    CHECK(said["least_possible_bytes"] == said["predicted_peak_bytes"]);
  }
  CHECK(kept["dropped"] == 0);
  CHECK(kept["recompute_seconds_predicted"] == 0.0);
  CHECK(kept["relative_time"] == 1.0);
  CHECK(free["dropped"] > 0);
  CHECK(free["recompute_seconds_predicted"] > 0.0);
  CHECK(free["relative_time"] > 1.0);
  const json segments = plan("--recompute segments=4");
  CHECK(segments["dropped"] > free["dropped"]);
  CHECK(segments["relative_time"] > free["relative_time"]);
}

TEST_CASE("what was not allowed is not done: a batch that is found drops no more than is free") {
  const std::string found = budget() + "--batch auto --offload auto --max-batch 28 ";
  const json moved = plan(found), either = plan(found + "--recompute auto");
  CHECK(moved["offloaded"] > 0);
  CHECK(moved["dropped"] == 0);
  CHECK(either["offloaded"] > 0);
  CHECK(either["dropped"] > 0);
  const auto events = run(found);
  CHECK(events.front()["remedies"] == json{"offload"});
  CHECK(events.front()["batch"] == moved["batch"]);
}

TEST_CASE("train offloads within the budget, with the losses of everything kept") {
  const auto kept = run("--recompute off");
  for (const char* flags : {"--offload auto", "--offload auto --recompute off"}) {
    CAPTURE(flags);
    const auto moved = run(budget() + flags);
    CHECK(losses_of(moved) == losses_of(kept));
    CHECK(moved.back()["budget_violations"] == 0);
    CHECK(moved.back()["peak_bytes"] == moved.back()["predicted_peak_bytes"]);
    const json remedies = moved.front()["remedies"];
    CHECK(std::count(remedies.begin(), remedies.end(), "offload") == 1);
  }
  const json remedies = run(budget()).front()["remedies"];
  CHECK(remedies == json{"recompute"});
  Finished said = train("--steps 2" + kRun + budget() + "--offload auto --recompute off");
  CHECK(said.out.find("offloading ") != std::string::npos);
  CHECK(said.out.find(" in the host) for ") != std::string::npos);
}

TEST_CASE("a kept plan brings what it recomputes, for the same question") {
  TempFolder folder;
  const std::string file = folder.path() + "/plan.json";
  Finished first = train("--steps 3" + kRun + budget() + "--save-plan " + file);
  REQUIRE(first.code == 0);
  CHECK(first.out.find("recomputing ") != std::string::npos);
  Finished again = train("--steps 3" + kRun + budget() + "--plan " + file);
  CAPTURE(again.err);
  REQUIRE(again.code == 0);
  CHECK(again.err.empty());
  CHECK(again.out.find("recomputing ") == std::string::npos);  // not chosen anew
  const auto events = run(budget() + "--plan " + file);
  CHECK(events.front()["plan_from"] == "file");
  CHECK(events.front()["remedies"] == json{"recompute"});
  CHECK(losses_of(events) == losses_of(run("--recompute off")));
  // Another question is asked again.
  Finished other = train("--steps 3" + kRun + "--recompute auto --budget 60MiB --plan " + file);
  CHECK(other.code == 0);
  CHECK(other.err.find("planning again") != std::string::npos);
}

TEST_CASE("what cannot be is refused in one line") {
  check_error(kRun + "--offload auto --recompute free",
              "--offload auto is planned with --recompute auto, or alone with --recompute off, not "
              "with free");
  check_error("--data synthetic --model resnet20 --batch fastest --offload auto",
              "--batch fastest times steps that hold everything on the device");
  check_error(kRun + "--offload disk", "--offload: expected off, auto, got 'disk'");
}
