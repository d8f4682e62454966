// `train --device cuda` from inside, where GPUs are emulated or there is one: its plan is for the
// GPU, its budget is kept, and it goes on where it stopped. Elsewhere it says that it was skipped.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "brim/base/cuda/context.h"
#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/memory.h"
#include "brim/apps/support/program.h"
#include "brim/apps/support/train_run.h"
#include "brim/tests/support/cuda_libraries.h"
#include "brim/tests/support/cuda_skip.h"
#include "brim/tests/support/small_datasets.h"
#include "brim/tests/support/temp_folder.h"

#ifdef BRIM_EMULATED_GPU
#include "brim/tests/support/cuda_emulator/troubles.h"
#endif

using namespace brim;
using namespace brim::testing;
using nlohmann::json;

namespace {

bool skipped(const char* what) { return use_plain_cuda_libraries(), skipped_on_cuda(what); }

std::vector<json> train(const std::string& arguments) {
  TempFolder folder;
  const std::string events = folder.path() + "/events.json";
  apps::App app;
  apps::TrainFlags flags;
  apps::add_flags(app, flags);
  app.parse(
      "--quiet --data synthetic --model resnet20 --size 16 --classes 10 --device cuda --json " +
      events + " " + arguments);
  apps::run_training(flags);
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
  CHECK_THROWS_AS(train("--steps 2 --batch 4 --budget 1MiB"), apps::DoesNotFit);
}

TEST_CASE("train on a GPU: updates are recorded within a budget, with the same losses") {
  if (skipped("graphs")) return;
  const std::string run = "--steps 5 --batch 2 --budget 1GiB";
  auto losses = [](const std::vector<json>& lines) {
    std::vector<json> found;
    for (const json& line : lines)
      if (line["event"] == "step") found.push_back(line["loss"]);
    return found;
  };
  const auto graph = train(run + " --cuda-graph");
  const json done = event_of(graph, "done");
  CHECK(done["graph_steps"] == 4);  // the first runs as it is
  CHECK(done["peak_bytes"] == done["predicted_peak_bytes"]);
  CHECK(losses(graph).size() == 5);
  CHECK(losses(graph) == losses(train(run)));
  CHECK_THROWS_WITH_AS(train(run + " --cuda-graph --offload auto"),
                       doctest::Contains("--replay cannot record"), ValueError);
}

TEST_CASE("train on a GPU: channels are pruned there, and memory is planned again") {
  if (skipped("pruning")) return;
  const auto lines = train(
      "--steps 6 --batch 2 --prune-to flops=0.6 --prune-start 2 --prune-end 4 --prune-every 2 "
      "--budget 1GiB");
  const json done = event_of(lines, "done");
  CHECK(std::ranges::count(lines, "prune", [](const json& line) { return line["event"]; }) == 2);
  CHECK(done["mismatches"] == 0);
  CHECK(done["peak_bytes"] == done["predicted_peak_bytes"]);
  CHECK(done["oom_events"] == 0);
}

TEST_CASE("train on a GPU: its numbers are watched") {
  if (skipped("numbers")) return;
  const json seen = event_of(train("--steps 2 --batch 2 --watch-numerics"), "numerics");
  // Found from the largest gradient: without any it would be the most that there is.
  CHECK(seen["loss_scale"].get<double>() >= 1);
  CHECK(seen["loss_scale"].get<double>() < 0x1p24);
  CHECK(seen["updates"] == json::array({0}));
}

TEST_CASE("train on a GPU: says what the process holds there, and what its context grew by") {
  if (skipped("contexts")) return;
  const auto lines = train("--steps 2 --batch 2");
  const json done = event_of(lines, "done");
  const cuda::Context context = cuda::open_context(Device::cuda());
  if (!context.is_measured) {
    CHECK(done["context_bytes"].is_null());
    CHECK(done["context_growth_bytes"].is_null());
    return;
  }
  CHECK(done["context_bytes"] == context.bytes);
  CHECK(event_of(lines, "plan")["context_bytes"] == context.bytes);
  CHECK(done["context_growth_bytes"].is_number_integer());
#ifdef BRIM_EMULATED_GPU
  CHECK(done["context_growth_bytes"] == 0);  // and all else is the account's
#endif
}

TEST_CASE("train on a GPU: all of brim's kernels are there with the context") {
  if (skipped("kernels")) return;
  // Of an emulated one a kernel of each file, of which a training links nearly all.
  CHECK(cuda::open_context(Device::cuda()).kernels >= 25);
}

TEST_CASE("train on a GPU: batches of a loader wait in pinned memory, by the account's number") {
  if (skipped("loaders")) return;
  TempFolder folder;
  write_cifar10(folder);
  const std::string data = "--data " + folder.path() + " --size 16 --steps 2 --batch 8 --workers 1";
  const json done = event_of(train(data), "done");
  // Three slots each to train and to validate: pixels, and labels on lines of 64 bytes.
  CHECK(done["pinned_bytes"] == 2 * 3 * (8 * 16 * 16 * 3 + 64));
#ifdef BRIM_EMULATED_GPU
  cuda::emulator::fail_pinned(1, 2);
  const json plain = event_of(train(data), "done");
  CHECK(plain["pinned_bytes"] == 3 * (8 * 16 * 16 * 3 + 64));
  CHECK(plain["val_accuracy"] == done["val_accuracy"]);
  CHECK(cuda::emulator::pinned_bytes() == 0);
#endif
}

TEST_CASE("train on a GPU: works late as at once, to the bit") {
#ifdef BRIM_EMULATED_GPU
  if (skipped("late work")) return;
  TempFolder folder;
  write_cifar10(folder);
  const std::string data =
      "--data " + folder.path() + " --size 16 --steps 3 --batch 4 --effective-batch 8";
  auto losses = [&] {
    std::vector<json> found;
    for (const json& line : train(data))
      if (line["event"] == "step") found.push_back(line["loss"]);
    return found;
  };
  const std::vector<json> at_once = losses();
  cuda::emulator::LateScope late;
  CHECK(losses() == at_once);
#else
  MESSAGE("skipped: late work (no emulated GPU)");
#endif
}

TEST_CASE("train on a GPU: what others take between plan and run is planned for") {
#ifdef BRIM_EMULATED_GPU
  if (skipped("lost memory")) return;
  const std::string run = "--steps 2 --batch auto --max-batch 8 --recompute off";
  const json before = event_of(train(run), "done");
  const auto all = static_cast<int64_t>(cuda::memory_info(Device::cuda()).free);
  const int64_t left = before["peak_bytes"].get<int64_t>() * 3 / 4;
  cuda::emulator::set_others(static_cast<size_t>(all - left), /*after=*/1);
  const auto lines = train(run);
  cuda::emulator::set_others(0);
  const json done = event_of(lines, "done");
  CHECK(std::ranges::count(lines, "plan", [](const json& line) { return line["event"]; }) == 2);
  CHECK(before["batch"] == 8);
  CHECK(done["batch"].get<int64_t>() < 8);
  CHECK(done["peak_bytes"].get<int64_t>() <= left);
  CHECK(done["peak_bytes"] == done["predicted_peak_bytes"]);
  CHECK(done["oom_events"] == 0);
#else
  MESSAGE("skipped: lost memory (no emulated GPU)");
#endif
}

// An emulated GPU has no engines to time: what there is of this are the flags and the checkpoints.
TEST_CASE("train on a GPU: TF32 and engines by timing hold what is predicted, and are of the run") {
  if (skipped("algorithms")) return;
  TempFolder folder;
  const std::string run = "--steps 4 --batch 2 --checkpoint-every 2 --checkpoint " + folder.path();
  for (const char* flag : {" --tf32", " --cudnn-benchmark"}) {
    CAPTURE(flag);
    const std::string place = run + "/" + (flag + 3);
    const json done = event_of(train(place + flag), "done");
    CHECK(done["peak_bytes"] == done["predicted_peak_bytes"]);
    CHECK(done["mismatches"] == 0);
    CHECK_NOTHROW(train(place + flag + " --resume"));
    CHECK_THROWS_WITH_AS(train(place + " --resume"), doctest::Contains("is of another training"),
                         FileError);
  }
  CHECK_NOTHROW(train("--steps 2 --batch auto --max-batch 4 --cudnn-benchmark --tf32"));
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
                       "leave out --replay",
                       ValueError);
}

TEST_CASE("train on a GPU: a GPU that is not there is refused") {
  if (skipped("devices")) return;
  TempFolder folder;
  apps::App app;
  apps::TrainFlags flags;
  apps::add_flags(app, flags);
  app.parse("--data synthetic --device cuda:9");
  CHECK_THROWS_AS(apps::run_training(flags), DeviceError);
}
