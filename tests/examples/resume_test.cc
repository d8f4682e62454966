// train --checkpoint --resume from outside: a run that is killed, told to stop, or cut short goes
// on with the bits of one that nothing disturbed.
#include <filesystem>
#include <fstream>
#include <map>

#include "brim/base/random.h"
#include "brim/tests/examples/train_program.h"
#include "brim/tests/support/small_datasets.h"

using namespace brim::testing;

namespace {

namespace fs = std::filesystem;

// Thirty updates of eight images, five epochs with an evaluation after each; all that a checkpoint
// has to keep: momentum of AdamW, averages, an order of images, augmentation.
struct Place {
  Place() {
    write_cifar10(data);
    common =
        "--data " + data.path() +
        " --model resnet20 --batch 8 --epochs 5 --optimizer adamw --ema 0.9 --threads 1 --workers "
        "1 --quiet ";
  }
  std::string kept(const std::string& name) const {
    return common + "--checkpoint " + folder.path() + "/" + name + " --checkpoint-every 2 ";
  }
  TempFolder data, folder;
  std::string common;
};

std::string bytes_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// The losses by step; a last line that was cut off is left out.
std::map<int64_t, double> losses_in(const std::string& path) {
  std::map<int64_t, double> losses;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    json event = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_discarded() && event["event"] == "step") losses[event["step"]] = event["loss"];
  }
  return losses;
}

}  // namespace

TEST_CASE("killed at thirty moments, every run goes on with the same losses, to the same weights") {
  Place place;
  const std::string& folder = place.folder.path();
  REQUIRE(train(place.common + "--json " + folder + "/calm.json --save " + folder + "/calm").code ==
          0);
  const auto calm = losses_in(folder + "/calm.json");
  REQUIRE(calm.size() == 30);
  brim::RandomStream random(brim::RandomKey{3});
  int kills = 0, finished = 0, resumed = 0, in_a_write = 0;
  for (int run = 0; kills < 30; ++run) {
    const std::string name = std::to_string(finished);
    Finished end = run_command("timeout -s KILL " + std::to_string(random.uniform(0.05f, 1.2f)) +
                               " examples/train " + place.kept(name) + "--resume --json " + folder +
                               "/run.json --save " + folder + "/run");
    CAPTURE(end.err);
    REQUIRE((end.code == 0 || end.code == 137));
    const auto losses = losses_in(folder + "/run.json");
    for (const auto& [step, loss] : losses) CHECK(loss == calm.at(step));
    resumed += !losses.empty() && losses.begin()->first > 1;
    kills += end.code == 137;
    if (end.code == 0) {
      CHECK(bytes_of(folder + "/run") == bytes_of(folder + "/calm"));
      ++finished;
      continue;
    }
    if (fs::exists(folder + "/" + name))
      for (const auto& entry : fs::directory_iterator(folder + "/" + name))
        in_a_write += !entry.path().filename().string().starts_with("step-");
  }
  CHECK(finished > 0);
  CHECK(resumed > 5);
  MESSAGE("finished ", finished, ", resumed ", resumed, ", killed in a write ", in_a_write);
}

TEST_CASE("told to stop, a run finishes its step, writes a checkpoint and says how to go on") {
  Place place;
  const std::string& folder = place.folder.path();
  REQUIRE(train(place.common + "--save " + folder + "/calm").code == 0);
  Finished end = run_command("timeout -s INT 0.6 examples/train " + place.kept("a"));
  CAPTURE(end.err);
  REQUIRE(end.code == 124);  // of timeout: the program itself ended after the signal
  CHECK(end.err.find("train: stopped by SIGINT after ") == 0);
  CHECK(end.err.find("the same command with --resume goes on from " + folder + "/a/step-") !=
        std::string::npos);
  REQUIRE(train(place.kept("a") + "--resume --save " + folder + "/resumed").code == 0);
  CHECK(bytes_of(folder + "/resumed") == bytes_of(folder + "/calm"));
}

TEST_CASE("so many checkpoints stay, and the older one serves where the newest is cut short") {
  Place place;
  const std::string& folder = place.folder.path();
  REQUIRE(train(place.kept("a") + "--keep 2 --save " + folder + "/calm").code == 0);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder + "/a")) files.push_back(entry.path());
  std::ranges::sort(files);
  REQUIRE(files.size() == 2);
  CHECK(files[1].filename() == "step-00000030.safetensors");
  fs::resize_file(files[1], fs::file_size(files[1]) / 2);
  std::string loud = place.kept("a") + "--keep 2 --resume --save " + folder + "/again";
  loud.replace(loud.find("--quiet "), 8, "");
  Finished end = train(loud);
  CAPTURE(end.err);
  REQUIRE(end.code == 0);
  CHECK(end.out.find("passed over: ") != std::string::npos);
  CHECK(end.out.find("going on from " + files[0].string() + ", after 28 updates") !=
        std::string::npos);
  CHECK(bytes_of(folder + "/again") == bytes_of(folder + "/calm"));
}

TEST_CASE("checkpoints: what cannot be is said before training") {
  Place place;
  const std::string& folder = place.folder.path();
  check_error(place.common + "--resume", "--resume needs --checkpoint DIR");
  std::ofstream(folder + "/plain") << "a file";
  check_error(place.common + "--checkpoint " + folder + "/plain/below", "plain");

  std::string loud = place.kept("b") + "--resume --steps 2";
  loud.replace(loud.find("--quiet "), 8, "");
  Finished fresh = train(loud);
  CHECK(fresh.code == 0);
  CHECK(fresh.out.find("no checkpoint in " + folder + "/b: training from the start") !=
        std::string::npos);
  check_error(place.kept("b") + "--steps 2", "go on from it with --resume, or take another folder");
  check_error(place.kept("b") + "--steps 4 --resume", "steps");
  check_error(place.kept("b") + "--steps 2 --seed 7 --resume", "seed");
}
