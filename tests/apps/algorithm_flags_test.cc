// --tf32 and --cudnn-benchmark: refused where there is nothing that they could mean, and what they
// come to goes with plans. What a GPU makes of them: cuda_train_test.cc.
#include "brim/apps/support/algorithm_flags.h"

#include <doctest/doctest.h>

#include "brim/apps/support/plan_file.h"
#include "brim/apps/support/train_plan.h"
#include "brim/tests/support/subprocess.h"
#include "brim/train/engine_file.h"

using namespace brim;
using namespace brim::apps;
using namespace brim::testing;

namespace {

TrainFlags parsed(const std::string& arguments, Device device) {
  App app;
  TrainFlags flags;
  add_flags(app, flags);
  app.parse("--data synthetic --size 16 --classes 10 " + arguments);
  flags.device = device;
  check_flags(flags);
  return flags;
}

}  // namespace

TEST_CASE("algorithm flags: are for a GPU") {
  CHECK_THROWS_WITH_AS(parsed("--tf32", Device::cpu()),
                       "flags: --tf32 is for a GPU's tensor cores: use --device cuda, not cpu",
                       ValueError);
  CHECK_THROWS_WITH_AS(parsed("--cudnn-benchmark", Device::cpu()),
                       "flags: --cudnn-benchmark times what a GPU does: use --device cuda, not cpu",
                       ValueError);
  CHECK_THROWS_WITH_AS(parsed("--cudnn-benchmark --batch fastest", Device::cuda()),
                       doctest::Contains("--batch fastest times steps before engines are chosen"),
                       ValueError);
  const TrainFlags flags = parsed("--tf32 --cudnn-benchmark --batch auto", Device::cuda());
  CHECK(flags.tf32);
  CHECK(flags.cudnn_benchmark);
  for (const char* program :
       {"train --data synthetic", "plan", "infer --weights w --image a.jpg"}) {
    const Finished refused = run_command(std::string("apps/") + program + " --tf32");
    CHECK(refused.code != 0);
    CHECK(refused.err.find("--tf32 is for a GPU's tensor cores") != std::string::npos);
  }
}

TEST_CASE("algorithm flags: a plan's file has the engines, with and without a choice before them") {
  const TrainFlags flags = parsed("--model resnet20 --batch 2", Device::cpu());
  const TrainData data = open_data(flags);
  const RehearsedPlan plan = predict_memory(flags, data, flags.batch).training;
  const std::string engines = to_text({{"a", {.engine = 3, .knobs = {{1, 2}}}}}, "a GPU");
  TempFolder folder;
  const std::string path = folder.path() + "/plan";
  for (const auto& choice : {std::optional<KeptChoice>(), std::optional(KeptChoice{"why", {}})}) {
    save_plan(path, plan, choice, engines);
    CHECK(load_engines(path) == engines);
    CHECK(load_choice(path, "why").has_value() == choice.has_value());
    CHECK(load_plan(path, plan.plan->identity).predicted.peak_reserved ==
          plan.predicted.peak_reserved);
    save_plan(path, plan, choice);
    CHECK(load_engines(path).empty());
  }
}

TEST_CASE("algorithm flags: what is kept of a GPU is all that was chosen on it") {
  const Device gpu = Device::cuda(7);
  CHECK(engines_to_keep(Device::cpu()).empty());
  CHECK(engines_to_keep(gpu).empty());
  engine_table(gpu).choose("a", {.engine = 3}, /*lasts=*/false);
  engine_table(gpu).choose("b", {.engine = 4}, /*lasts=*/true);
  CHECK(engine_choices_from(engines_to_keep(gpu), engine_kind(gpu)) == engine_table(gpu).chosen());
}
