// train --checkpoint --resume beside the flags that keep a plan and draw the first updates: the run
// has the same losses as without them, follows the plan to the byte, and draws what it does.
#include <filesystem>

#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/small_datasets.h"

using namespace brim::testing;

namespace {

namespace fs = std::filesystem;

// Twelve updates of eight images in two epochs, each with an evaluation.
struct Place {
  Place() {
    write_cifar10(data);
    common = "--data " + data.path() +
             " --model resnet20 --batch 8 --epochs 2 --ema 0.9 --threads 1 --workers 1 --json - ";
  }
  std::string path(const std::string& name) const { return folder.path() + "/" + name; }
  std::string kept(const std::string& name) const {
    return common + "--checkpoint " + path(name) + " --checkpoint-every 2 --keep 20 ";
  }
  /// As if the run had been killed after so many updates.
  void cut(const std::string& name, int updates) const {
    const std::string last = file_of(updates);
    for (const fs::path& file : files(name))
      if (file.filename().string() > last) fs::remove(file);
    REQUIRE(files(name).back().filename() == last);
  }
  TempFolder data, folder;
  std::string common;

 private:
  static std::string file_of(int updates) {
    std::string digits = std::to_string(updates);
    return "step-" + std::string(8 - digits.size(), '0') + digits + ".safetensors";
  }
  std::vector<fs::path> files(const std::string& name) const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(path(name))) all.push_back(entry.path());
    std::ranges::sort(all);
    return all;
  }
};

struct Run {
  std::vector<double> losses;  // of the updates that it did
  json done;
  std::string err;
};

Run run(const std::string& arguments) {
  CAPTURE(arguments);
  Finished end = train(arguments);
  CAPTURE(end.err);
  REQUIRE(end.code == 0);
  Run result{.err = end.err};
  for (const json& event : events_of(end.out))
    if (event["event"] == "step")
      result.losses.push_back(event["loss"]);
    else
      result.done = event;
  REQUIRE(result.done["event"] == "done");
  CHECK(result.done["mismatches"] == 0);
  CHECK(result.done["peak_bytes"] == result.done["predicted_peak_bytes"]);
  CHECK(result.done["budget_violations"] == 0);
  return result;
}

std::vector<double> from(const std::vector<double>& losses, int updates) {
  return {losses.begin() + updates, losses.end()};
}

}  // namespace

TEST_CASE("a run with checkpoints saves a plan, takes it, and goes on with it") {
  Place place;
  const std::string plan = place.path("a.plan"), copy = place.path("b.plan");
  const Run calm = run(place.common);
  REQUIRE(calm.losses.size() == 12);
  CHECK(run(place.kept("a") + "--save-plan " + plan).losses == calm.losses);
  CHECK(run(place.kept("b") + "--plan " + plan).losses == calm.losses);
  // In the first epoch, at its end, in the second.
  for (int updates : {10, 6, 4}) {
    CAPTURE(updates);
    place.cut("a", updates);
    const Run resumed = run(place.kept("a") + "--resume --plan " + plan + " --save-plan " + copy);
    CHECK(resumed.losses == from(calm.losses, updates));
    CHECK(resumed.err.empty());  // not planned again
    CHECK(resumed.done["peak_bytes"] == calm.done["peak_bytes"]);
    CHECK(resumed.done["val_accuracy"] == calm.done["val_accuracy"]);
    CHECK(text_of(copy) == text_of(plan));
  }
  place.cut("a", 4);
  CHECK(run(place.kept("a") + "--resume --save-plan " + copy).losses == from(calm.losses, 4));
  CHECK(text_of(copy) == text_of(plan));
}

TEST_CASE("a run that goes on with other micro-batches does not take the plan of before") {
  Place place;
  const std::string plan = place.path("a.plan"), parts = " --effective-batch 8 --batch 4";
  run(place.kept("a") + "--save-plan " + plan);
  place.cut("a", 4);
  std::string smaller = place.kept("a") + "--resume --plan " + plan + parts;
  smaller.replace(smaller.find("--batch 8 "), 10, "");
  const Run resumed = run(smaller);
  CHECK(resumed.err.find("planning again") != std::string::npos);
  CHECK(resumed.losses.size() == 8);
  CHECK(resumed.done["micro_batches"] == 2);
}

TEST_CASE("the first updates of a run that goes on are drawn, and are no others for it") {
  Place place;
  const Run calm = run(place.common);
  for (const std::string name : {"a.html", "a.json"}) {
    CAPTURE(name);
    const std::string file = place.path(name),
                      traced = place.kept(name + "-kept") + "--trace " + file;
    CHECK(run(traced).losses == calm.losses);
    for (int updates : {10, 4}) {  // the last two alone, and three of many
      CAPTURE(updates);
      place.cut(name + "-kept", updates);
      fs::remove(file);
      CHECK(run(traced + " --resume").losses == from(calm.losses, updates));
      const std::string text = text_of(file);
      CHECK(text.find("layer3.0.conv2") != std::string::npos);
      // A measurement over the prediction.
      if (name == "a.html") CHECK(text.find("\"largest_difference\":0,") != std::string::npos);
      if (name == "a.json") CHECK(json::parse(text)["traceEvents"].size() > 500);
    }
    // Nothing is left to do, and so nothing to draw.
    fs::remove(file);
    Finished end = train(traced + " --resume");
    CAPTURE(end.err);
    CHECK(end.code == 0);
    CHECK(fs::exists(file));
  }
}
