// A file that a program writes stays as it is until there is something to put in its place: a run
// that is refused, or fails, leaves what another has written.
#include <filesystem>

#include "brim/nn/models/registry.h"
#include "brim/nn/weights.h"
#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/errors.h"

using namespace brim;
using namespace brim::testing;

namespace {

const std::string kOld = "{\"event\":\"old\"}\n";

struct Place {
  TempFolder folder;
  std::string file(const std::string& name) const { return folder.path() + "/" + name; }
  std::string old(const std::string& name) const {
    std::ofstream(file(name)) << kOld;
    return file(name);
  }
  bool is_old(const std::string& name) const { return bytes_of(file(name)) == kOld; }
  size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder.path()),
                                             std::filesystem::directory_iterator()));
  }
};

}  // namespace

TEST_CASE("train: a start that is refused leaves the log and all other files") {
  const Place place;
  const std::string run = kSynthetic + kQuick + " --quiet --op-times nominal ";
  REQUIRE(train(run + "--checkpoint " + place.file("kept")).code == 0);
  REQUIRE(train(run + "--checkpoint " + place.file("seed") + " --seed 1").code == 0);
  std::string outputs;
  const std::vector<std::string> names{"log",    "w",       "best",      "p.plan",
                                       "t.html", "pr.html", "watch.html"};
  const std::vector<std::string> flags{"json",  "save",    "save-best",     "save-plan",
                                       "trace", "profile", "watch-numerics"};
  for (size_t i = 0; i < names.size(); ++i) outputs += " --" + flags[i] + " " + place.old(names[i]);
  const size_t files = place.files();
  for (const std::string& more :
       {std::string("--steps 0"), std::string("--fused-update --clip-norm 1"),
        std::string("--data ") + place.file("missing"), "--checkpoint " + place.file("kept"),
        "--checkpoint " + place.file("seed") + " --resume", "--init " + place.file("log")}) {
    CAPTURE(more);
    const Finished end = train(run + outputs + " " + more);
    CAPTURE(end.err);
    CHECK(end.code == 1);
    for (const std::string& name : names) CHECK_MESSAGE(place.is_old(name), name);
    CHECK(place.files() == files);
  }
}

TEST_CASE("train: what does not fit is told in the log, in place of what was there") {
  const Place place;
  const Finished end = train(kSynthetic + kQuick + " --budget 1MiB --json " + place.old("log"));
  CHECK(end.code == 2);
  const auto events = events_of(bytes_of(place.file("log")));
  REQUIRE(events.size() == 1);
  CHECK(events[0]["event"] == "refused");
}

TEST_CASE("train: a run replaces the log, and one that goes on lengthens it") {
  const Place place;
  const std::string run = kSynthetic + " --batch 4 --quiet --checkpoint " + place.file("kept") +
                          " --checkpoint-every 1 --keep 9 --steps 4 --json " + place.file("log");
  place.old("log");
  REQUIRE(train(run).code == 0);
  const auto first = events_of(bytes_of(place.file("log")));
  REQUIRE(losses_of(first).size() == 4);
  CHECK(first.front()["event"] == "plan");
  // As one whose last checkpoints were not written, and whose last line was cut off.
  for (const char* step : {"3", "4"})
    std::filesystem::remove(place.file("kept") + "/step-0000000" + step + ".safetensors");
  std::ofstream(place.file("log"), std::ios::app) << R"({"event":"st)";
  REQUIRE(train(run + " --resume").code == 0);
  std::vector<json> all;
  std::istringstream lines(bytes_of(place.file("log")));
  size_t torn = 0;
  for (std::string line; std::getline(lines, line);) {
    const json event = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (event.is_discarded())
      ++torn;
    else
      all.push_back(event);
  }
  CHECK(torn == 1);
  const std::vector<double> losses = losses_of(all), before = losses_of(first);
  REQUIRE(losses.size() == 6);  // 1 to 4, then 3 and 4 again
  CHECK(std::vector(losses.begin(), losses.begin() + 4) == before);
  CHECK(std::vector(losses.begin() + 4, losses.end()) ==
        std::vector(before.begin() + 2, before.end()));
}

TEST_CASE("infer, plan, prune and pack: a run that fails leaves the log and its outputs") {
  const Place place;
  nn::save_weights(*nn::make_model("resnet20", {.classes = 3}), place.file("w"),
                   {.model = "resnet20"});
  std::ofstream(place.file("in.csv")) << "id,lower,upper,size\na,0,1,4\nb,0,1\n";
  const std::string log = " --json " + place.old("log");
  const std::string out = place.old("out");
  const std::string weights = " --weights " + place.file("w");
  for (const std::string& command :
       {"infer" + weights + " --image " + place.file("missing.jpg") + log,
        "infer" + weights + " --input " + place.file("in.csv") + " --output " + out + log,
        "plan --init " + place.file("in.csv") + log + " --html " + out + " --csv " + out,
        "prune" + weights + " --data synthetic --to flops=0.001 --batch 2 --save " + out + log,
        "pack " + place.file("in.csv") + " " + out + log}) {
    CAPTURE(command);
    const Finished end = run_command("apps/" + command);
    CAPTURE(end.err);
    CHECK(end.code == 1);
    CHECK(place.is_old("log"));
    CHECK(place.is_old("out"));
  }
}

TEST_CASE("a log may be a pipe or a device, and is then written to as it is") {
  const Place place;
  std::ofstream(place.file("in.csv")) << "id,lower,upper,size\na,0,1,4\n";
  const std::string pack = "apps/pack --quiet " + place.file("in.csv") + " --json ";
  CHECK(run_command(pack + "/dev/null").code == 0);
  const Finished piped = run_command("sh -c '" + pack + "/dev/stdout | cat'");
  CHECK(events_of(piped.out).size() == 1);
  const Finished full = run_command(pack + "/dev/full");
  CHECK(full.code == 1);
  CHECK(contains(full.err, "cannot write '/dev/full': No space left on device"));
}
