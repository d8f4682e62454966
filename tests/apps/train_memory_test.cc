// The train program from outside: what it predicts, keeps to and refuses of memory.
#include <filesystem>
#include <fstream>

#include "brim/memory/host_memory.h"
#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/pictures.h"

using namespace brim::testing;

TEST_CASE("what is predicted before the first byte is what training and evaluation hold") {
  TempFolder folder;
  write_pictures(folder, 7);  // of 14: batches of 4, then one of 2, evaluated after each epoch
  for (std::string planner : {"arena", "direct", "caching"})
    for (std::string model : {"resnet20", "mobilenet_v2"}) {
      CAPTURE(planner);
      CAPTURE(model);
      Finished run = train("--size 32 --epochs 3 --batch 4 --threads 1 --json - --data " +
                           folder.path() + " --planner " + planner + " --model " + model);
      CAPTURE(run.err);
      REQUIRE(run.code == 0);
      auto events = events_of(run.out);
      const json &plan = events.front(), &done = events.back();
      CHECK(done["peak_bytes"] == done["predicted_peak_bytes"]);
      CHECK(done["peak_live_bytes"] == done["predicted_peak_live_bytes"]);
      CHECK(plan["predicted_peak_bytes"] == done["predicted_peak_bytes"]);
      CHECK(done["mismatches"] == 0);
    }
}

TEST_CASE("the arena planner is the default; a budget of its peak runs, a unit less does not") {
  const std::string common =
      "--data synthetic --model resnet20 --size 32 --classes 10 --recompute off --json - " + kQuick;
  Finished run = train(common);
  REQUIRE(run.code == 0);
  const json done = events_of(run.out).back();
  CHECK(done["peak_bytes"] == done["peak_live_bytes"]);  // the arena has no gap
  int64_t peak = done["predicted_peak_bytes"];
  CHECK(done["peak_bytes"] == peak);
  CHECK(train(common + " --budget " + std::to_string(peak)).code == 0);
  Finished refused = train(common + " --budget " + std::to_string(peak - 64));
  CHECK(refused.code == 2);
  CHECK(refused.err.find(std::to_string(peak)) != std::string::npos);
}

TEST_CASE("a plan is kept, and used again where the question is the same") {
  TempFolder folder;
  const std::string file = folder.path() + "/resnet20.plan";
  const std::string common =
      "--data synthetic --model resnet20 --size 32 --classes 10 --json - " + kQuick;
  Finished first = train(common + " --save-plan " + file);
  REQUIRE(first.code == 0);
  CHECK(std::filesystem::file_size(file) > 10'000);
  Finished again = train(common + " --plan " + file);
  REQUIRE(again.code == 0);
  CHECK(again.err.empty());
  const json before = events_of(first.out).back(), after = events_of(again.out).back();
  for (const char* key : {"peak_bytes", "predicted_peak_bytes", "peak_live_bytes",
                          "predicted_peak_live_bytes", "mismatches"}) {
    CAPTURE(key);
    CHECK(before[key] == after[key]);
  }
  CHECK(events_of(first.out)[2]["loss"] == events_of(again.out)[2]["loss"]);

  Finished other = train(common + " --batch 6 --plan " + file);
  CHECK(other.code == 0);
  CHECK(other.err.find("planning again") != std::string::npos);
  // Of all that a plan depends on, what differs is named and nothing else.
  CHECK(other.err.find("expected 'batch 6, 6 an update', got 'batch 4, 4 an update'") !=
        std::string::npos);
  CHECK(events_of(other.out).back()["mismatches"] == 0);

  const std::string copy = folder.path() + "/copy.plan", page = folder.path() + "/kept.html";
  CHECK(train(common + " --plan " + file + " --save-plan " + copy + " --trace " + page).code == 0);
  CHECK(text_of(copy) == text_of(file));
  CHECK(text_of(page).find("\"largest_difference\":0") != std::string::npos);

  const std::string deep = folder.path() + "/deep.plan";
  std::ofstream(deep) << std::string(500'000, '[') << std::string(500'000, ']') << "\n";
  CHECK(train(common + " --plan " + deep).err.find("there is no 'format'") != std::string::npos);
  std::ofstream(deep) << "{\"plan\":" << std::string(500'000, '[');
  CHECK(train(common + " --plan " + deep).err.find("ends early") != std::string::npos);

  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  Finished cut = train(common + " --plan " + file);
  CHECK(cut.code == 0);
  CHECK(cut.err.find(file) != std::string::npos);
  CHECK(cut.err.find("planning again") != std::string::npos);
  check_error(common + " --planner caching --plan " + file, "are for the arena planner");
}

TEST_CASE("the first updates are drawn as they happened") {
  TempFolder folder;
  const std::string common = "--data synthetic --model resnet20 --size 32 --classes 10" + kQuick;
  for (std::string planner : {"arena", "caching"}) {
    CAPTURE(planner);
    Finished run = train(common + " --planner " + planner + " --trace " + folder.path() + "/" +
                         planner + ".html");
    CAPTURE(run.err);
    CHECK(run.code == 0);
    const std::string page = text_of(folder.path() + "/" + planner + ".html");
    CHECK(page.find("layer3.0.conv2") != std::string::npos);
    // A measurement over the prediction.
    CHECK(page.find("\"largest_difference\":0") != std::string::npos);
  }
  CHECK(train(common + " --trace " + folder.path() + "/step.json").code == 0);
  json events = json::parse(std::ifstream(folder.path() + "/step.json"));
  CHECK(events["traceEvents"].size() > 1000);
  check_error(common + " --trace step.txt", "--trace writes .html or .json, got 'step.txt'");
}

TEST_CASE("a budget too small for the parameters, or for a step, exits with 2 before training") {
  check_error("--model resnet20 --budget 1MiB" + kQuick,
              "parameters, buffers and optimizer state alone", 2);
  Finished run = train(
      "--model resnet20 --budget 20MiB --batch 64 --recompute off --json - --steps 2 --threads 1");
  CHECK(run.code == 2);
  auto events = events_of(run.out);
  REQUIRE(events.size() == 1);
  const json& refused = events[0];
  CHECK(refused["event"] == "refused");
  CHECK(refused["budget_bytes"] == 20 << 20);
  CHECK(refused["needed_bytes"] > 20 << 20);
  CHECK(refused["least_possible_bytes"] == refused["needed_bytes"]);  // the flags pin the rest
  REQUIRE(refused["fits"].size() >= 2);  // and both with recomputation on top
  const json &parts = refused["fits"].front(), &smaller = refused["fits"].back();
  CHECK(parts["relative_time"] > 1.0);
  CHECK(smaller["relative_time"] >= 1.0);  // an image: each op costs its start
  CHECK(smaller["relative_time"] < 1.5);
  // What is said to fit, fits.
  int count = 0, batch = 0, images = 0;
  CHECK(std::sscanf(parts["remedy"].get<std::string>().c_str(), "%d micro-batches of %d", &count,
                    &batch) == 2);
  CHECK(count == (64 + batch - 1) / batch);
  CHECK(std::sscanf(smaller["remedy"].get<std::string>().c_str(), "batch %d", &images) == 1);
  for (const std::string& flags :
       {"--batch " + std::to_string(images),
        "--effective-batch 64 --micro-batches " + std::to_string(count)}) {
    Finished again = train(
        "--model resnet20 --budget 20MiB --recompute off --json - --steps 2 --threads 1 " + flags);
    CAPTURE(flags);
    CAPTURE(again.err);
    REQUIRE(again.code == 0);
    const json done = events_of(again.out).back();
    CHECK(done["peak_bytes"] <= 20 << 20);
    CHECK(done["peak_bytes"] == done["predicted_peak_bytes"]);
    CHECK(done["mismatches"] == 0);
    CHECK(done["budget_violations"] == 0);
    CHECK(done["batch"].get<int>() * done["micro_batches"].get<int>() >= done["effective_batch"]);
  }
}

TEST_CASE("without a budget what the machine has left is the limit") {
  Finished run = train("--data synthetic --model resnet50 --batch 1000000 --steps 1 --json -");
  CHECK(run.code == 2);
  CHECK(run.err.find("resnet50 does not fit the memory left in ") != std::string::npos);
  const json refused = events_of(run.out).front();
  CHECK(refused["event"] == "refused");
  CHECK(refused["budget_bytes"] < brim::memory::host_memory());
}

TEST_CASE("a refusal does not contradict itself, at odd batches and small ones") {
  const std::string common =
      " --data synthetic --model resnet20 --size 32 --classes 10 --threads 1 --recompute off";
  auto predicted = [&](int batch) -> int64_t {
    auto events =
        events_of(train("--json - --steps 1 --batch " + std::to_string(batch) + common).out);
    return events.front()["predicted_peak_bytes"];
  };
  for (int batch : {1, 3, 6}) {
    CAPTURE(batch);
    int64_t budget = predicted(batch) - 1;
    Finished run = train("--json - --steps 1 --batch " + std::to_string(batch) + common +
                         " --budget " + std::to_string(budget));
    CHECK(run.code == 2);
    const json refused = events_of(run.out).front();
    CHECK(refused["needed_bytes"] == budget + 1);
    CHECK(refused["least_possible_bytes"] == budget + 1);
    // Even where no smaller batch does, an update without all gradients at once fits.
    CHECK(!refused["fits"].empty());
    for (const json& fits : refused["fits"]) CHECK(fits["predicted_peak_bytes"] <= budget);
  }
}
