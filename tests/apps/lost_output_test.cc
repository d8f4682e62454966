// Output that is lost is an error, in one line that says why: a full disk, a descriptor that the
// caller closed. With nothing to print there is nothing to lose.
#include "brim/brim.h"
#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/errors.h"

using namespace brim;
using namespace brim::testing;

namespace {

/// A run of each program that prints something, without its name's folder.
std::vector<std::string> runs(const TempFolder& folder) {
  const std::string weights = folder.path() + "/w", csv = folder.path() + "/in.csv",
                    npy = folder.path() + "/x.npy";
  nn::save_weights(*nn::make_model("resnet20", {.classes = 10}), weights, {.model = "resnet20"});
  std::ofstream(csv) << "id,lower,upper,size\na,0,1,4\n";
  io::write_npy(npy, zeros({1, 32, 32, 3}));
  return {
      "train --op-times nominal" + kSynthetic + kQuick,
      "infer --weights " + weights + " --input " + npy + " --output " + folder.path() + "/y.npy",
      "plan --op-times nominal" + kSynthetic + " --batch 2",
      "prune --op-times nominal --threads 1 --data synthetic --classes 10 --batch 2 --weights " +
          weights,
      "pack " + csv};
}

/// Standard output goes to `where`, "/dev/full" or "&-"; standard error stays.
Finished run_to(const std::string& where, const std::string& arguments) {
  return run_command("sh -c 'apps/" + arguments + " >" + where + "'");
}

void check_lost(const Finished& run, const std::string& why) {
  CAPTURE(run.err);
  CHECK(run.code == 1);
  CHECK(contains(run.err, "cannot write to standard output: " + why));
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
}

}  // namespace

TEST_CASE("standard output that is full or closed ends every program with exit code 1") {
  const TempFolder folder;
  for (const std::string& arguments : runs(folder)) {
    CAPTURE(arguments);
    const std::string program = arguments.substr(0, arguments.find(' '));
    for (const std::string& each : {arguments, arguments + " --json -", program + " --help"}) {
      CAPTURE(each);
      check_lost(run_to("/dev/full", each), "No space left on device");
      check_lost(run_to("&-", each), "Bad file descriptor");
    }
  }
}

TEST_CASE("an answer that does not fit is none where it is lost") {
  const std::string run = "plan --op-times nominal" + kSynthetic + " --batch 8 --budget 1MiB";
  CHECK(run_to("/dev/null", run).code == 2);
  check_lost(run_to("/dev/full", run), "No space left on device");
}

TEST_CASE("a program that is quiet runs with all descriptors closed, and its files are whole") {
  const TempFolder folder;
  for (const std::string& arguments : runs(folder)) {
    CAPTURE(arguments);
    const std::string log = folder.path() + "/log";
    CHECK(run_command("sh -c 'apps/" + arguments + " --quiet --json " + log + " <&- >&- 2>&-'")
              .code == 0);
    CHECK(events_of(bytes_of(log)).size() >= 1);
  }
}
