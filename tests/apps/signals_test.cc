// Signals at random moments of a run, planning, training, evaluation and checkpoints alike: nothing
// that was committed is lost, and the run that goes on has the bits of one that nothing disturbed.
// BRIM_SIGNAL_MOMENTS says at how many (default 8): 30 take some minutes.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "brim/base/random.h"
#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/small_datasets.h"

using namespace brim::testing;

namespace {

namespace fs = std::filesystem;

constexpr int64_t kSteps = 30;
// Who runs the test may have told it to outlive its terminal.
const std::string kHeard = "env --default-signal=HUP ";

// Five epochs, each with an evaluation about as long as half of it; what a checkpoint has to
// keep of AdamW, an order of images, augmentation; a batch and what is made again planned for a
// budget.
struct Place {
  Place() { write_mnist(data, 48); }
  std::string file(const std::string& name) const { return folder.path() + "/" + name; }
  std::string arguments(const std::string& more) const {
    return "--data " + data.path() +
           " --model resnet20 --size 28 --batch auto --effective-batch 8 --epochs 5 --budget 24MiB "
           "--recompute auto --optimizer adamw --threads 1 --workers 1 --json " +
           file("log") + " " + more;
  }
  std::string kept(const std::string& more = "") const {
    return arguments("--checkpoint " + file("kept") + " --checkpoint-every 4 --resume --save " +
                     file("weights") + " " + more);
  }
  TempFolder data, folder;
};

/// The updates that the newest checkpoint has seen; 0 for none.
int64_t updates_kept(const std::string& folder) {
  int64_t newest = 0;
  if (fs::exists(folder))
    for (const auto& entry : fs::directory_iterator(folder))
      if (const std::string name = entry.path().filename();
          name.starts_with("step-") && name.ends_with(".safetensors"))  // no half file
        newest = std::max<int64_t>(newest, std::stoll(name.substr(5)));
  return newest;
}

bool has_half_files(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().string().find(".tmp-") != std::string::npos) return true;
  return false;
}

int moments() {
  const char* asked = std::getenv("BRIM_SIGNAL_MOMENTS");
  return asked == nullptr ? 8 : std::atoi(asked);
}

/// One training after the other, disturbed at random moments.
class Disturbed {
 public:
  Disturbed() {
    Finished run = train(place_.arguments("--save " + place_.file("calm")));
    REQUIRE(run.code == 0);
    calm_ = losses_in(place_.file("log"));
    REQUIRE(calm_.size() == kSteps);
    const auto start = std::chrono::steady_clock::now();
    REQUIRE(train(place_.kept()).code == 0);
    whole_ = std::chrono::duration<float>(std::chrono::steady_clock::now() - start).count();
    begin_anew();
  }

  /// As `docker stop`: the signal, and 10 s later the one that cannot be caught, if the run is
  /// still there. Returns whether it was disturbed before its end.
  bool end_by(const std::string& signal) {
    fs::remove(place_.file("log"));
    const int64_t before = updates_kept(place_.file("kept"));
    Finished run = run_command("timeout --preserve-status -k 10 -s " + signal + " " + moment() +
                               " " + kHeard + kTrain + place_.kept());
    CAPTURE(signal);
    CAPTURE(run.err);
    if (signal != "KILL") CHECK(run.code != 137);  // it took no 10 s
    const auto losses = losses_in(place_.file("log"));
    check_losses(losses, before);
    if (run.code == 0) return finish(), false;
    const int64_t done = losses.empty() ? before : losses.rbegin()->first;
    if (losses.empty() && run.err.empty()) return true;  // before it began
    if (signal == "KILL") {
      CHECK(updates_kept(place_.file("kept")) >= done - 4);
      return true;
    }
    CHECK(run.err.starts_with("train: stopped by SIG" + signal + " "));
    CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
    CHECK(updates_kept(place_.file("kept")) == done);
    if (fs::exists(place_.file("kept"))) CHECK(!has_half_files(place_.file("kept")));
    return true;
  }

  /// Asks for a checkpoint, and kills the run as soon as it says that there is one.
  bool ask_by(const std::string& signal) {
    fs::remove(place_.file("log"));
    const int64_t before = updates_kept(place_.file("kept"));
    const std::string out = place_.file("said"), said = signal + ": wrote ";
    Finished run =
        run_command("(" + kTrain + place_.kept() + " >" + out + " & pid=$!; sleep " + moment() +
                    "; kill -" + signal.substr(3) + " $pid; while kill -0 $pid && ! grep -q '" +
                    said + "' " + out + "; do sleep 0.01; done; kill -9 $pid; wait $pid)");
    CAPTURE(signal);
    CAPTURE(run.err);
    check_losses(losses_in(place_.file("log")), before);
    if (run.code == 0) return finish(), false;
    if (run.code != 137) {  // before it began
      CHECK(!fs::exists(place_.file("log")));
      return true;
    }
    const std::string text = bytes_of(out);
    const size_t at = text.find(said);
    REQUIRE(at != std::string::npos);
    const std::string path = text.substr(at + said.size(), text.find('\n', at) - at - said.size());
    CHECK(updates_kept(place_.file("kept")) >= std::stoll(path.substr(path.rfind("step-") + 5)));
    return true;
  }

  void to_the_end() {
    fs::remove(place_.file("log"));
    const int64_t before = updates_kept(place_.file("kept"));
    REQUIRE(train(place_.kept()).code == 0);
    check_losses(losses_in(place_.file("log")), before);
    finish();
  }

  int64_t resumed() const { return resumed_; }

 private:
  /// The losses are those of a run that went on after so many updates.
  void check_losses(const std::map<int64_t, double>& losses, int64_t before) {
    for (const auto& [step, loss] : losses) CHECK(loss == calm_.at(step));
    if (!losses.empty()) CHECK(losses.begin()->first == before + 1);
    resumed_ += !losses.empty() && before > 0;
  }

  void finish() {
    CHECK(bytes_of(place_.file("weights")) == bytes_of(place_.file("calm")));
    begin_anew();
  }

  void begin_anew() {
    fs::remove_all(place_.file("kept"));
    fs::remove(place_.file("weights"));
  }

  std::string moment() { return std::to_string(whole_ * random_.uniform(0.02f, 0.9f)); }

  Place place_;
  brim::RandomStream random_{brim::RandomKey{50}};
  std::map<int64_t, double> calm_;
  float whole_ = 0;  // seconds of a run
  int64_t resumed_ = 0;
};

}  // namespace

TEST_CASE("whatever signal comes and when, what was committed is kept, and the bits are the same") {
  Disturbed runs;
  const std::vector<std::string> ways{"TERM", "USR1", "HUP", "KILL", "INT", "USR2"};
  int disturbed = 0;
  for (int i = 0; disturbed < moments(); ++i) {
    REQUIRE(i < 20 * moments());
    const std::string& way = ways[static_cast<size_t>(i) % ways.size()];
    disturbed += way.starts_with("USR") ? runs.ask_by("SIG" + way) : runs.end_by(way);
  }
  runs.to_the_end();
  CHECK(runs.resumed() > moments() / 4);
}
