// More threads than any machine has use for are refused, or where the environment asks for them,
// brought down to the cores, in all programs: none hangs or ends by a signal.
#include "brim/base/thread_limit.h"

#include "brim/brim.h"
#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/errors.h"

using namespace brim;
using namespace brim::testing;

TEST_CASE("--threads and --workers beyond the most are refused with the range") {
  const std::string range = fmt::format("a whole number from 1 to {}, got", most_threads());
  for (const char* program : {"train", "infer", "plan", "prune"})
    for (const char* threads : {"30000", "100000", "0"}) {
      CAPTURE(program);
      const Finished run = run_command(fmt::format("apps/{} --threads {}", program, threads));
      CHECK(run.code == 1);
      CHECK(contains(run.err, fmt::format("--threads: expected {} '{}'", range, threads)));
    }
  for (const char* program : {"train", "prune"})
    CHECK(contains(run_command(std::string("apps/") + program + " --workers 30000").err,
                   "--workers: expected a whole number from 0 to 1024, got '30000'"));
}

TEST_CASE("OMP_NUM_THREADS beyond the most is brought down to the cores, and that is said") {
  const TempFolder folder;
  const std::string weights = folder.path() + "/w", npy = folder.path() + "/x.npy";
  nn::save_weights(*nn::make_model("resnet20", {.classes = 10}), weights, {.model = "resnet20"});
  io::write_npy(npy, zeros({1, 32, 32, 3}));
  const std::string net =
      " --op-times nominal --data synthetic --model resnet20 --size 32 --classes 10";
  for (const std::string& run :
       {"train" + net + " --batch 4 --steps 2", "plan" + net + " --batch 4",
        "prune" + net + " --batch 4 --weights " + weights,
        "infer --weights " + weights + " --input " + npy + " --output " + folder.path() + "/y.npy"})
    for (const char* threads : {"30000", "100000"}) {
      CAPTURE(run);
      const Finished end = run_command(fmt::format("OMP_NUM_THREADS={} apps/{}", threads, run));
      CAPTURE(end.err);
      CHECK(end.code == 0);
      CHECK(contains(end.err,
                     fmt::format("threads: OMP_NUM_THREADS asks for {}, more than {}: taking ",
                                 threads, most_threads())));
    }
  // Where nobody can be told, it is done all the same.
  CHECK(
      run_command("sh -c 'OMP_NUM_THREADS=100000 apps/plan" + net + " --batch 4 2>&-'").code ==
      0);
}
