// train --prune-to from outside: within a budget with a batch that is found, on to the end with the
// same bits from a checkpoint on either side of each pruning.
#include <doctest/doctest.h>

#include <filesystem>

#include "brim/nn/models/load_model.h"
#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/small_datasets.h"

using namespace brim;
using namespace brim::testing;

namespace {

namespace fs = std::filesystem;

const std::string kPruning =
    " --prune-to flops=0.5 --prune-multiple 1 --prune-start 4 --prune-end 12 --prune-every 4 ";

struct Place {
  Place() {
    write_cifar10(data);
    common = "--data " + data.path() +
             " --model resnet20 --budget 6MiB --batch auto --steps 16 --ema 0.9 --threads 1 "
             "--workers 1 --quiet" +
             kPruning;
  }
  std::string file(const std::string& name) const { return folder.path() + "/" + name; }
  TempFolder data, folder;
  std::string common;
};

std::vector<json> of_kind(const std::vector<json>& events, const std::string& kind) {
  std::vector<json> found;
  for (const json& event : events)
    if (event["event"] == kind) found.push_back(event);
  return found;
}

/// A run with these flags for its batch, and what goes on from its checkpoints.
void check_resumed_bits(const std::string& batch, bool grows) {
  CAPTURE(batch);
  Place place;
  place.common += batch;
  const std::string whole = place.file("whole");
  const Finished run =
      train(place.common + "--json - --checkpoint " + whole +
            " --checkpoint-every 1 --keep 100 --save " + place.file("whole.weights"));
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  const std::vector<json> events = events_of(run.out);
  const std::vector<double> losses = losses_of(events);
  REQUIRE(losses.size() == 16);
  const json done = events.back();
  CHECK(done["budget_violations"] == 0);
  CHECK(done["oom_events"] == 0);
  CHECK(done["mismatches"] == 0);
  CHECK(done["peak_bytes"] <= 6 << 20);
  CHECK(done["peak_bytes"] == done["predicted_peak_bytes"]);
  const std::vector<json> prunings = of_kind(events, "prune"), plans = of_kind(events, "replan");
  REQUIRE(prunings.size() == 3);
  REQUIRE(plans.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(prunings[i]["step"] == 4 * (i + 1));
    CHECK(plans[i]["step"] == 4 * (i + 1));
  }
  CHECK((plans[2]["batch"] > events.front()["batch"]) == grows);
  CHECK(prunings[2]["cost"] <= 0.5 * prunings[2]["before"].get<double>());
  CHECK(nn::load_model(place.file("whole.weights")).module->parameter_count() ==
        prunings[2]["parameters"]);
  for (int step : {4, 5, 8, 9, 12, 13}) {
    CAPTURE(step);
    const std::string name = "from" + std::to_string(step);
    const std::string folder = place.file(name), weights = place.file(name + ".weights");
    fs::create_directory(folder);
    const std::string checkpoint = fmt::format("/step-{:08d}.safetensors", step);
    fs::copy(whole + checkpoint, folder + checkpoint);
    const Finished rest =
        train(place.common + "--json - --resume --checkpoint " + folder + " --save " + weights);
    CAPTURE(rest.err);
    REQUIRE(rest.code == 0);
    CHECK(losses_of(events_of(rest.out)) ==
          std::vector<double>(losses.begin() + step, losses.end()));
    CHECK(events_of(rest.out).back()["budget_violations"] == 0);
    CHECK(events_of(rest.out).back()["mismatches"] == 0);
    CHECK(bytes_of(weights) == bytes_of(place.file("whole.weights")));
  }
}

}  // namespace

TEST_CASE("train --prune-to: within the budget, resumed on either side with the same bits") {
  check_resumed_bits("--max-batch 8 ", /*grows=*/false);
}

TEST_CASE("train --prune-to: a batch that was found grows up to the images of an update") {
  check_resumed_bits("--effective-batch 16 ", /*grows=*/true);
}

TEST_CASE("train --prune-to: what cannot be done is said in a line") {
  const std::string run = kSynthetic + " --batch 4 --steps 6";
  check_error(run + " --prune-to flops=0.001", "cannot be had: the least possible is");
  check_error(run + " --prune-to flops=2", "in --prune-to flops=0.5, got 'flops=2'");
  check_error(run + " --prune-to 0.5", "expected one of flops, bytes");
  check_error(run + " --prune-start 2", "need --prune-to");
  check_error(run + " --prune-to flops=0.5 --prune-start 3 --prune-end 2",
              "--prune-end 2 is before --prune-start 3");
  check_error(run + " --prune-to flops=0.5 --prune-end 6", "is not before the last of 6 updates");
  check_error(run + " --prune-to flops=0.5 --prune-criterion l3", "did you mean 'l1'?");
  check_error(run + " --prune-to flops=0.5 --fused-update", "leave one of them out");
}

TEST_CASE(
    "train --prune-to: by bytes, time, parameters and ratio; with gradients; from a pruned file") {
  const TempFolder folder;
  const std::string weights = folder.path() + "/a";
  const std::string run = kSynthetic +
                          " --batch 4 --steps 4 --prune-multiple 1 --prune-start 1 "
                          "--prune-end 2 --prune-every 1 --json - ";
  for (const char* goal : {"bytes=0.9", "time=0.8", "parameters=0.6", "ratio=0.3"}) {
    CAPTURE(goal);
    const Finished pruned = train(run + "--prune-to " + goal + " --save " + weights);
    CAPTURE(pruned.err);
    REQUIRE(pruned.code == 0);
    const json last = of_kind(events_of(pruned.out), "prune").back();
    const std::string text = goal;
    const double amount = std::stod(text.substr(text.find('=') + 1));
    CHECK(last["cost"] <=
          (text.starts_with("ratio") ? 1 - amount : amount) * last["before"].get<double>());
  }
  const Finished again =
      train(run + "--prune-to flops=0.7 --prune-criterion taylor --init " + weights);
  CAPTURE(again.err);
  REQUIRE(again.code == 0);
  CHECK(events_of(again.out).back()["mismatches"] == 0);
  CHECK(of_kind(events_of(again.out), "prune").back()["cost"] <=
        0.7 * of_kind(events_of(again.out), "prune").back()["before"].get<double>());
}

TEST_CASE("pruning that looks at gradients keeps to its plan where weights meet few pixels") {
  TempFolder data;
  write_cifar10(data);
  const Finished run =
      train("--data " + data.path() +
            " --model resnet18 --batch 2 --steps 6 --threads 1 --workers 1 --quiet "
            "--prune-to flops=0.9 --prune-criterion taylor --prune-start 3 "
            "--prune-end 4 --prune-every 1 --json -");
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  const json done = events_of(run.out).back();
  CHECK(done["mismatches"] == 0);
  CHECK(done["oom_events"] == 0);
}
