// --op-times of train and plan from outside: measured once and kept where the environment says,
// measured again where the file is no good, or not at all. Losses are the same in each case.
#include <filesystem>

#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/errors.h"

using namespace brim::testing;

namespace {

const std::string kNet =
    " --data synthetic --model resnet20 --size 32 --classes 10 --batch 4 --threads 1";

struct Place {
  TempFolder folder;
  std::string cache = folder.path() + "/cache";
  Finished run(const std::string& flags) const {
    return run_command("BRIM_CACHE_DIR=" + cache + " apps/train --steps 2 --json - " + flags +
                       kNet);
  }
  std::string file() const { return cache + "/op_times_cpu_1.json"; }
};

/// Of a run that may say something.
std::vector<double> losses_of(const Finished& run) {
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  const std::vector<double> losses = brim::testing::losses_of(events_of(run.out));
  CHECK(losses.size() == 2);
  return losses;
}

}  // namespace

TEST_CASE("the machine is measured once; a file that is no good is replaced, and that is said") {
  Place place;
  const Finished nominal = place.run("--op-times nominal");
  CHECK(!std::filesystem::exists(place.cache));
  const Finished first = place.run("");
  CHECK(first.err.empty());
  const std::string kept = text_of(place.file());
  CHECK(!kept.empty());
  const Finished second = place.run("--op-times calibrated");
  CHECK(second.err.empty());
  CHECK(text_of(place.file()) == kept);
  auto planned = [](const Finished& run) {
    auto event = events_of(run.out).front();
    event.erase("available_bytes");  // what others leave
    return event;
  };
  CHECK(planned(second) == planned(first));
  std::ofstream(place.file()) << kept.substr(0, kept.size() / 2);
  const Finished damaged = place.run("");
  CHECK(contains(damaged.err, "op times: it is damaged"));
  CHECK(std::count(damaged.err.begin(), damaged.err.end(), '\n') == 1);
  CHECK(text_of(place.file()).size() > kept.size() / 2);
  CHECK(place.run("").err.empty());
  for (const Finished& run : {first, second, damaged}) CHECK(losses_of(run) == losses_of(nominal));
}

TEST_CASE("plan says where its times come from") {
  Place place;
  auto said = [&](const std::string& flags) {
    return run_command("BRIM_CACHE_DIR=" + place.cache + " apps/plan " + flags + kNet).out;
  };
  CHECK(contains(said("--op-times nominal"), "predicted times: nominal, 500 GFLOP/s, 73.0 GB/s\n"));
  const std::string first = said("");
  const size_t at = first.find("predicted times: this machine's, ");
  REQUIRE(at != std::string::npos);
  CHECK(first.find(" rounds within ", at) != std::string::npos);
  const std::string second = said("--op-times calibrated");
  CHECK(contains(second, first.substr(at, first.find('\n', at) - at)));
}

TEST_CASE("where nothing can be kept, a warning is all") {
  Place place;
  std::ofstream(place.cache) << "a file, no folder";
  const Finished run = place.run("");
  CHECK(run.code == 0);
  CHECK(contains(run.err, "the next run measures again"));
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
}

TEST_CASE("measured times each op of the model, within a budget too") {
  Place place;
  const Finished whole = place.run("--op-times nominal");
  const int64_t peak = events_of(whole.out).front()["predicted_peak_bytes"];
  const std::string budget = " --recompute auto --budget " + std::to_string(peak * 3 / 4);
  const Finished run = place.run("--op-times measured" + budget);
  CHECK(losses_of(run) == losses_of(whole));
  const json done = events_of(run.out).back();
  CHECK(done["peak_bytes"] == done["predicted_peak_bytes"]);
  CHECK(done["peak_bytes"] <= peak * 3 / 4);
  const Finished said = run_command("BRIM_CACHE_DIR=" + place.cache +
                                    " apps/plan --op-times measured" + budget + kNet);
  CAPTURE(said.out);
  CHECK(said.code == 0);
  CHECK(contains(said.out, " different ops of resnet20 for its predictions"));
  CHECK(!contains(said.out, "could not be timed"));
}

TEST_CASE("a plan that was kept is taken whatever the times come from") {
  Place place;
  const std::string kept = place.folder.path() + "/step.plan";
  CHECK(place.run("--op-times nominal --save-plan " + kept).code == 0);
  for (const char* times : {"calibrated", "measured"}) {
    const Finished run = place.run("--op-times " + std::string(times) + " --plan " + kept);
    CHECK(run.code == 0);
    CHECK(run.err.empty());
    CHECK(events_of(run.out).front()["plan_from"] == "file");
  }
}

TEST_CASE("other words are refused") { check_error("--op-times guessed" + kNet, "guessed"); }
