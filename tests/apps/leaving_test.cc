// Runs that end before they are done, from outside: by an error, by lost output, by a signal while
// something is planned. What was trained is kept where there is a folder, and one line says so.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/encode_image.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/small_datasets.h"

using namespace brim::testing;

namespace {

namespace fs = std::filesystem;

// Six updates an epoch, with an evaluation after each.
struct Place {
  Place() { write_mnist(data, 48); }
  std::string file(const std::string& name) const { return folder.path() + "/" + name; }
  std::string arguments(const std::string& more) const {
    return "--data " + data.path() +
           " --model resnet20 --size 28 --batch 8 --threads 1 --workers 1 " + more + " ";
  }
  std::string kept(const std::string& more) const {
    return arguments("--checkpoint " + file("kept") + " " + more);
  }
  TempFolder data, folder;
};

void check_one_line(const Finished& run, const std::string& start, const std::string& end) {
  CAPTURE(run.err);
  CHECK(run.code == 1);
  CHECK(run.err.starts_with(start));
  CHECK(contains(run.err, end));
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
}

bool has_half_files(const std::string& folder) {
  return std::ranges::any_of(fs::directory_iterator(folder), [](const auto& entry) {
    return contains(entry.path().string(), ".tmp-");
  });
}

// Who runs the test may have told it to outlive its terminal.
const std::string kHeard = "env --default-signal=HUP ";

/// Signalled as soon as `reached`, a condition of the shell, holds.
Finished signalled(const std::string& command, const std::string& signal,
                   const std::string& reached) {
  return run_command("(" + command + " & pid=$!; while kill -0 $pid && ! " + reached +
                     "; do sleep 0.01; done; kill -" + signal + " $pid; wait $pid)");
}

}  // namespace

TEST_CASE("a picture of the validation that cannot be read costs no update") {
  TempFolder folder;
  const std::string data = folder.path() + "/d", kept = folder.path() + "/kept";
  for (const char* split : {"train", "val"})
    for (const char* name : {"dark", "light"})
      for (int i = 0; i < 4; ++i) {
        const Bytes samples(32 * 32 * 3, static_cast<uint8_t>(name[0] == 'd' ? 40 + i : 200 + i));
        folder.write(fmt::format("d/{}/{}/{}.jpg", split, name, i),
                     encode_jpeg({.width = 32, .height = 32}, samples));
      }
  auto run = [&](const std::string& more) {
    return train("--data " + data +
                 " --model resnet20 --size 32 --batch 4 --epochs 2 --threads 1 "
                 "--workers 1 --quiet --save " +
                 folder.path() + "/" + more);
  };
  REQUIRE(run("calm").code == 0);
  const std::string picture = data + "/val/light/3.jpg", whole = bytes_of(picture);
  std::ofstream(picture) << "no picture";
  check_one_line(run("w --checkpoint " + kept), "train: ", "light/3.jpg");
  check_one_line(
      run("w --resume --checkpoint " + kept), "train: ",
      "; the same command with --resume goes on from " + kept + "/step-00000002.safetensors");
  std::ofstream(picture) << whole;
  REQUIRE(run("w --resume --checkpoint " + kept).code == 0);
  CHECK(bytes_of(folder.path() + "/w") == bytes_of(folder.path() + "/calm"));
}

TEST_CASE("output that nobody reads any more ends a run with a checkpoint") {
  Place place;
  // A log whose reader takes the plan and four updates.
  Finished run = run_command("mkfifo " + place.file("log") + "; head -n 5 " + place.file("log") +
                             " >/dev/null & " + kTrain +
                             place.kept("--epochs 50 --quiet --json " + place.file("log")));
  check_one_line(
      run, "train: json: ",
      "; the same command with --resume goes on from " + place.file("kept") + "/step-0000");

  fs::remove_all(place.file("kept"));
  run = run_command("({ " + kTrain + place.kept("--epochs 50") + "; echo $? >" +
                    place.file("code") + "; } | head -n 8)");
  CHECK(bytes_of(place.file("code")) == "1\n");
  run.code = 1;
  check_one_line(
      run, "train: output: cannot write to standard output: Broken pipe; ",
      "the same command with --resume goes on from " + place.file("kept") + "/step-0000");
}

TEST_CASE("a checkpoint that cannot be written whole leaves nothing, and the one before stays") {
  Place place;
  REQUIRE(train(place.kept("--quiet --epochs 1 --schedule constant")).code == 0);
  const Finished run = run_command("ulimit -f 1000; " + kTrain +
                                   place.kept("--quiet --epochs 2 --schedule constant --resume"));
  check_one_line(run, "train: safetensors: cannot write '" + place.file("kept") + "/step-00000012",
                 "File too large; the same command with --resume goes on from " +
                     place.file("kept") + "/step-00000006.safetensors");
  CHECK(!has_half_files(place.file("kept")));
}

TEST_CASE("without a folder a signal ends a run at once, and what is lost is said") {
  Place place;
  const std::string log = place.file("log");
  const std::string learnt = "grep -qs '\"step\":2,' " + log;
  for (const char* signal : {"TERM", "HUP", "INT"}) {
    fs::remove(log);
    check_one_line(
        signalled(kHeard + kTrain + place.arguments("--epochs 9999 --quiet --json " + log), signal,
                  learnt),
        std::string("train: stopped by SIG") + signal + " after ",
        " updates, which are lost: --checkpoint DIR would have kept them");
  }
}

TEST_CASE("what is planned or timed is stopped within it, and keeps nothing") {
  Place place;
  const std::string after = "sleep 0.3";
  // Each takes many seconds.
  check_one_line(signalled(kPlan + "--model densenet121 --batch 64 --budget 1GiB --recompute auto",
                           "TERM", after),
                 "plan: stopped by SIGTERM before it was done", "");
  check_one_line(
      signalled(kHeard + "BRIM_CACHE_DIR= XDG_CACHE_HOME= HOME= apps/plan --model resnet50",
                "TERM", after),
      "plan: stopped by SIGTERM before it was done", "");
  check_one_line(signalled(kHeard + "BRIM_CACHE_DIR= XDG_CACHE_HOME= HOME= apps/train " +
                               place.kept("--quiet --model resnet50 --size 64"),
                           "HUP", after),
                 "train: stopped by SIGHUP before it was done", "");
  CHECK(fs::is_empty(place.file("kept")));
}

TEST_CASE("images are classified one by one, and a signal is heard between them") {
  Place place;
  REQUIRE(train(place.arguments("--quiet --epochs 1 --save " + place.file("w"))).code == 0);
  const Bytes samples(28 * 28 * 3, 99);
  place.folder.write("p.jpg", encode_jpeg({.width = 28, .height = 28}, samples));
  const std::string said = place.file("said");
  check_one_line(signalled("apps/infer --threads 1 --weights " + place.file("w") + " --json " +
                               place.file("log") + " --image $(yes " + place.file("p.jpg") +
                               " | head -n 20000) >" + said,
                           "TERM", "[ -s " + said + " ]"),
                 "infer: stopped by SIGTERM before it was done", "");
  CHECK(!fs::exists(place.file("log")));
}

TEST_CASE("two runs do not share a folder, and one that was killed holds none") {
  Place place;
  const std::string first = "(" + kTrain + place.kept("--epochs 9999 --quiet") + " & pid=$!; " +
                            "while kill -0 $pid && ! ls " + place.file("kept") +
                            "/step-* 2>/dev/null >&2; do sleep 0.01; done; ";
  const Finished both = run_command(first + kTrain + place.kept("--resume --epochs 9999") +
                                    "; echo $?; kill -9 $pid; wait $pid)");
  CAPTURE(both.err);
  CHECK(both.out.ends_with("1\n"));
  CHECK(
      contains(both.err, "train: checkpoints: '" + place.file("kept") + "' is in use by process "));
  CHECK(contains(both.err, ": take another folder, or wait until that ends\n"));
  CHECK(fs::exists(place.file("kept/.lock")));
  const Finished next = signalled(kHeard + kTrain + place.kept("--resume --epochs 9999 --quiet"),
                                  "TERM", "sleep 0.5");
  CHECK(contains(next.err, "train: stopped by SIGTERM"));
  CHECK(!fs::exists(place.file("kept/.lock")));
}

TEST_CASE("more epochs go on where the rates so far are the same, and are refused where not") {
  Place place;
  const std::string constant = "--quiet --schedule constant --save " + place.file("w") + " ";
  REQUIRE(train(place.arguments(constant + "--epochs 3")).code == 0);
  const std::string long_run = bytes_of(place.file("w"));
  REQUIRE(train(place.kept(constant + "--epochs 1")).code == 0);
  REQUIRE(train(place.kept(constant + "--epochs 3 --resume")).code == 0);
  CHECK(bytes_of(place.file("w")) == long_run);
  check_error(place.kept(constant + "--epochs 2 --resume"),
              "its steps is \"18\", but \"12\" here; 18 are done already");

  fs::remove_all(place.file("kept"));
  REQUIRE(train(place.kept("--quiet --schedule onecycle --epochs 1")).code == 0);
  check_error(
      place.kept("--quiet --schedule onecycle --epochs 2 --resume"),
      "its steps is \"6\", but \"12\" here; with --schedule onecycle update 1 would have had "
      "another rate: --schedule constant takes more steps later");

  // The first step down is after half of all updates: 6 of 12 are done before it in both.
  fs::remove_all(place.file("kept"));
  const std::string step = "--quiet --schedule step --save " + place.file("w") + " ";
  REQUIRE(train(place.arguments(step + "--epochs 4")).code == 0);
  const std::string stepped = bytes_of(place.file("w"));
  REQUIRE(train(place.kept(step + "--epochs 2 --checkpoint-every 6")).code == 0);
  fs::remove(place.file("kept/step-00000012.safetensors"));
  REQUIRE(train(place.kept(step + "--epochs 4 --resume")).code == 0);
  CHECK(bytes_of(place.file("w")) == stepped);
}

TEST_CASE("a run that is done reports its accuracy again when it is resumed") {
  Place place;
  auto done = [&](const std::string& more) {
    const Finished run = train(place.kept("--epochs 1 --json - " + more));
    REQUIRE(run.code == 0);
    return events_of(run.out).back();
  };
  const json first = done(""), again = done("--resume");
  CHECK(again["event"] == "done");
  REQUIRE(first["val_accuracy"].is_number());
  CHECK(again["val_accuracy"] == first["val_accuracy"]);
  CHECK(again["val_top5"] == first["val_top5"]);
}
