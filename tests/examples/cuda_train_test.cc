// `train --device cuda` from inside, where GPUs are emulated or there is one: its plan is for the
// GPU, its budget is kept, and it goes on where it stopped. Elsewhere it says that it was skipped.
#include <doctest/doctest.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "brim/base/cuda/devices.h"
#include "brim/examples/support/program.h"
#include "brim/examples/support/train_run.h"
#include "brim/tests/support/cuda_libraries.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using namespace brim::testing;
using nlohmann::json;

namespace {

bool skipped(const char* what) {
  use_plain_cuda_libraries();
  std::string why = cuda::why_no_device();
  if (!why.empty()) MESSAGE("skipped: ", std::string(what), " on CUDA (", why, ")");
  return !why.empty();
}

std::vector<json> train(const std::string& arguments) {
  TempFolder folder;
  const std::string events = folder.path() + "/events.json";
  CLI::App app;
  examples::TrainFlags flags;
  examples::add_flags(app, flags);
  app.parse(
      "--quiet --data synthetic --model resnet20 --size 16 --classes 10 --device cuda --json " +
      events + " " + arguments);
  examples::run_training(flags);
  std::ifstream file(events);
  std::vector<json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

json event_of(const std::vector<json>& lines, const std::string& name) {
  for (const json& line : lines)
    if (line["event"] == name) return line;
  FAIL("no event ", name);
  return {};
}

}  // namespace

TEST_CASE("train on a GPU: holds what was predicted, for every planner") {
  if (skipped("planners")) return;
  for (const char* planner : {"arena", "caching"}) {
    CAPTURE(planner);
    const json done =
        event_of(train(std::string("--steps 3 --batch 2 --planner ") + planner), "done");
    CHECK(done["peak_bytes"] == done["predicted_peak_bytes"]);
    CHECK(done["peak_live_bytes"] == done["predicted_peak_live_bytes"]);
    CHECK(done["mismatches"] == 0);
  }
}

TEST_CASE("train on a GPU: within a budget, with what it takes") {
  if (skipped("budgets")) return;
  const auto free =
      event_of(train("--steps 2 --batch 4 --recompute off"), "done")["peak_bytes"].get<int64_t>();
  const auto lines = train("--steps 3 --batch 4 --budget " + std::to_string(free * 9 / 10));
  const json done = event_of(lines, "done");
  CHECK(done["peak_bytes"].get<int64_t>() <= free * 9 / 10);
  CHECK(done["budget_violations"] == 0);
  CHECK(done["oom_events"] == 0);
  CHECK(done["mismatches"] == 0);
  CHECK_THROWS_AS(train("--steps 2 --batch 4 --budget 1MiB"), examples::DoesNotFit);
}

TEST_CASE("train on a GPU: it is profiled, but not what starts from a graph") {
  if (skipped("profiles")) return;
  TempFolder folder;
  const std::string page = folder.path() + "/time.html";
  const json profile = event_of(train("--steps 5 --batch 2 --profile " + page), "profile");
  CHECK(profile["updates"] == json::array({3, 4}));
  CHECK(std::filesystem::file_size(page) > 10000);
  CHECK_THROWS_WITH_AS(train("--steps 5 --batch 2 --cuda-graph --profile " + page),
                       "flags: --profile times launches, and an update from a graph has none: "
                       "leave out --cuda-graph",
                       ValueError);
}

TEST_CASE("train on a GPU: a GPU that is not there is refused") {
  if (skipped("devices")) return;
  TempFolder folder;
  CLI::App app;
  examples::TrainFlags flags;
  examples::add_flags(app, flags);
  app.parse("--data synthetic --device cuda:9");
  CHECK_THROWS_AS(examples::run_training(flags), DeviceError);
}
