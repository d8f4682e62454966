// train --checkpoint --resume from outside: a run that is killed, told to stop, or cut short goes
// on with the bits of one that nothing disturbed.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "brim/base/random.h"
#include "brim/tests/apps/train_program.h"
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

}  // namespace

namespace {

/// Trains under `killed(arguments, folder of checkpoints)`, which says whether it killed the run,
/// until that happened so often; a training that comes to its end all the same is followed by
/// another. Returns how many runs had gone on from a checkpoint.
template <class Killed>
int check_kills(int kills, const Killed& killed) {
  Place place;
  const std::string &folder = place.folder.path(), run = folder + "/run";
  REQUIRE(train(place.common + "--json " + folder + "/calm.json --save " + folder + "/calm").code ==
          0);
  const auto calm = losses_in(folder + "/calm.json");
  REQUIRE(calm.size() == 30);
  int resumed = 0, training = 0;
  auto name = [&] { return std::to_string(training); };
  auto arguments = [&] {
    return place.kept(name()) + "--resume --json " + run + ".json --save " + run;
  };
  auto check_losses = [&] {
    const auto losses = losses_in(run + ".json");
    for (const auto& [step, loss] : losses) CHECK(loss == calm.at(step));
    resumed += !losses.empty() && losses.begin()->first > 1;
    fs::remove(run + ".json");  // which the next run would lengthen
  };
  auto check_weights = [&] { CHECK(bytes_of(run) == bytes_of(folder + "/calm")); };
  while (kills > 0) {
    bool was_killed = killed(arguments(), folder + "/" + name());
    check_losses();
    if (was_killed) {
      --kills;
      continue;
    }
    check_weights();
    REQUIRE(++training < 100);
  }
  REQUIRE(train(arguments()).code == 0);
  check_losses();
  check_weights();
  return resumed;
}

}  // namespace

TEST_CASE("killed at thirty moments, every run goes on with the same losses, to the same weights") {
  brim::RandomStream random(brim::RandomKey{3});
  // Of the time that a whole training takes here; which may change, as other programs come and go.
  Place place;
  auto start = std::chrono::steady_clock::now();
  REQUIRE(train(place.kept("timed")).code == 0);
  std::chrono::duration<float> whole = std::chrono::steady_clock::now() - start;
  int resumed = check_kills(30, [&](const std::string& arguments, const std::string&) {
    Finished end = run_command("timeout -s KILL " +
                               std::to_string(whole.count() * random.uniform(0.1f, 1.1f)) + " " +
                               kTrain + arguments);
    CAPTURE(end.err);
    REQUIRE((end.code == 0 || end.code == 137));
    const bool was_killed = end.code == 137;
    whole *= was_killed ? 1.1f : 0.8f;
    return was_killed;
  });
  CHECK(resumed > 3);
}

TEST_CASE("killed while a checkpoint is written, a run goes on from the one before") {
  int resumed = check_kills(10, [&](const std::string& arguments, const std::string& folder) {
    // The file has another name until it is whole: killed as soon as there is a third
    // one, as the folder is tried with a first.
    Finished end = run_command("(" + kTrain + arguments +
                               " & pid=$!; n=0; while kill -0 $pid; do for f in " + folder +
                               "/*.safetensors?*; do if [ -e \"$f\" ] && [ \"$f\" != \"$last\" ]; "
                               "then last=$f; n=$((n+1)); [ $n = 3 ] && kill -9 $pid; fi; done; "
                               "done; wait $pid)");
    REQUIRE((end.code == 0 || end.code == 137));
    return end.code == 137;
  });
  CHECK(resumed > 3);
}

TEST_CASE("told to stop, a run finishes its step, writes a checkpoint and says how to go on") {
  Place place;
  const std::string kept = place.folder.path() + "/a";
  // Signalled as soon as `waiting`, a condition of the shell, no longer holds.
  auto stop = [&](const std::string& signal, const std::string& waiting, const std::string& flags) {
    return run_command("(" + kTrain + place.kept("a") + "--epochs 100000 " + flags +
                       " & pid=$!; while kill -0 $pid && " + waiting + "; do :; done; kill -" +
                       signal + " $pid; wait $pid)");
  };
  Finished first = stop("INT", "! ls " + kept + "/step-*.safetensors 2>&1", "");
  CAPTURE(first.err);
  CHECK(first.code == 1);
  CHECK(first.err.find("train: stopped by SIGINT after ") == 0);
  CHECK(first.err.find("the same command with --resume goes on from " + kept + "/step-") !=
        std::string::npos);
  // Until three more have taken the place of the one that it left.
  const std::string left = first.err.substr(first.err.find(kept), kept.size() + 26);
  Finished second = stop("TERM", "[ -e " + left + " ]", "--resume");
  CHECK(second.code == 1);
  CHECK(second.err.find("train: stopped by SIGTERM after ") == 0);
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

  for (const auto& entry : fs::directory_iterator(folder + "/a")) fs::resize_file(entry.path(), 9);
  end = train(place.kept("a") + "--resume");
  CHECK(end.code == 1);  // it does not start over unseen
  CHECK(end.err.find("no checkpoint in '" + folder + "/a' is whole") != std::string::npos);
}

TEST_CASE("a run goes on under the plan of its checkpoint, or says why it is planned again") {
  Place place;
  const std::string& folder = place.folder.path();
  place.common.replace(place.common.find("--quiet "), 8, "");
  place.common.replace(place.common.find("--batch 8"), 9, "--batch auto --effective-batch 8");
  Finished four = train(place.common + "--batch 4 --json -");
  REQUIRE(four.code == 0);
  const int64_t peak = events_of(four.out).front()["predicted_peak_bytes"], budget = peak + 1000;
  const std::string flags = " --budget " + std::to_string(budget) + " ";
  REQUIRE(train(place.kept("a") + "--keep 2 --save " + folder + "/calm" + flags).code == 0);
  fs::remove(folder + "/a/step-00000030.safetensors");
  const std::string newest = "/step-00000028.safetensors";

  bool same_weights = false;
  /// From a copy of the folder, changed.
  auto resume = [&](const std::string& name, const std::string& more,
                    const std::function<void(const std::string& file)>& change = {}) {
    fs::copy(folder + "/a", folder + "/" + name);
    fs::remove(folder + "/events");
    if (change) change(folder + "/" + name + newest);
    Finished run = train(place.kept(name) + "--resume --save " + folder + "/again --json " +
                         folder + "/events " + more);
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    same_weights = bytes_of(folder + "/again") == bytes_of(folder + "/calm");
    return run.out;
  };
  auto event = [&](size_t from_end = 0) {
    auto events = events_of(bytes_of(folder + "/events"));
    return from_end == 0 ? events.front() : events.back();
  };

  const std::string page = folder + "/page.html";
  const std::string same = resume("b", flags + "--trace " + page);
  CHECK(same.find("going on from " + folder + "/b" + newest) != std::string::npos);
  CHECK(same.find("under the memory plan that it has: batch 4, ") != std::string::npos);
  CHECK(same_weights);
  CHECK(same.find("rehearsals") == std::string::npos);
  CHECK(event()["plan_from"] == "checkpoint");
  CHECK(event()["batch"] == 4);
  CHECK(event(1)["mismatches"] == 0);
  CHECK(event(1)["peak_bytes"] == event()["predicted_peak_bytes"]);
  CHECK(bytes_of(page).find("\"largest_difference\":0") != std::string::npos);

  const std::string other = resume("c", " --budget " + std::to_string(budget + 64) + " ");
  CHECK(same_weights);
  CHECK(other.find("the plan of the checkpoint was made for ") != std::string::npos);
  CHECK(other.find("(" + std::to_string(budget + 64) + " bytes) now; planned again") !=
        std::string::npos);
  CHECK(event()["plan_from"] == "rehearsal");

  const std::string damaged = resume("d", flags, [](const std::string& file) {
    std::string all = bytes_of(file);
    char& digit = all[all.find("\\\"version\\\":") + 12];
    REQUIRE(digit >= '0');
    REQUIRE(digit <= '9');
    digit ^= 1;
    std::ofstream(file, std::ios::binary) << all;
  });
  CHECK(same_weights);
  CHECK(damaged.find("going on from " + folder + "/d" + newest) != std::string::npos);
  CHECK(damaged.find("the plan of the checkpoint is damaged: its checksum is ") !=
        std::string::npos);
  CHECK(event()["plan_from"] == "rehearsal");
  CHECK(event(1)["mismatches"] == 0);

  const std::string asked = resume("e", flags + "--batch 2");
  CHECK(asked.find("it answers another question") != std::string::npos);
  CHECK(event()["batch"] == 2);
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
