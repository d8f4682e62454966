// --precision and --loss-scale from outside: each trains in the bytes that are predicted, says what
// it computed in and what was skipped, and goes on from a checkpoint with the same scale.
#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim::testing;

namespace {

std::vector<json> trained(const std::string& arguments) {
  return trained_as_predicted("--batch 8" + kSynthetic + arguments);
}

json plan_event(const std::vector<json>& events) {
  for (const json& event : events)
    if (event["event"] == "plan") return event;
  return {};
}

}  // namespace

TEST_CASE("each precision trains as predicted, halves in fewer bytes") {
  int64_t wide = 0;
  for (const char* precision : {"f32", "bf16", "f16"}) {
    CAPTURE(precision);
    const auto events = trained(" --steps 3 --precision " + std::string(precision));
    const json& done = events.back();
    CHECK(done["precision"] == precision);
    CHECK(plan_event(events)["precision"] == precision);
    CHECK(losses_of(events).size() == 3);
    if (wide == 0) wide = done["peak_bytes"];
    CHECK((done["peak_bytes"] < wide) == (std::string(precision) != "f32"));
    if (std::string(precision) != "f16") CHECK(done["final_scale"] == 1);
  }
}

TEST_CASE("float16 skips what overflows, and says so") {
  const auto events = trained(" --steps 6 --precision f16 --loss-scale 1e12");
  CHECK(events.back()["skipped_steps"] == 6);
  CHECK(events.back()["final_scale"] == 1e12);
  int64_t steps = 0;
  for (const json& event : events)
    if (event["event"] == "step") {
      CHECK(event["step"] == ++steps);
      CHECK(event["applied"] == false);
      CHECK(event["scale"] == 1e12);
    }
  CHECK(steps == 6);
  Finished said = train("--batch 8 --steps 2 --precision f16 --loss-scale 1e12" + kSynthetic);
  CHECK(said.out.find("precision: float16 between ops; its products are computed in float32") !=
        std::string::npos);
  CHECK(
      said.out.find("step 1 is skipped, an overflow with the loss times 1000000000000: first seen "
                    "in the backward pass of '") != std::string::npos);
  CHECK(said.out.find("2 of 2 steps were skipped for an overflow") != std::string::npos);
  CHECK(trained(" --steps 2 --precision f16 --loss-scale none").back()["final_scale"] == 1);
}

TEST_CASE("auto takes float32 where it fits, else bfloat16") {
  CHECK(trained(" --steps 1 --precision auto").back()["precision"] == "f32");
  const int64_t wide = trained(" --steps 1").back()["peak_bytes"];
  const std::string budget = " --recompute free --budget " + std::to_string(wide - 1);
  const json less = trained(" --steps 1 --precision auto" + budget).back();
  CHECK(less["precision"] == "bf16");
  CHECK(less["peak_bytes"] < wide);
  // Proposed, never taken unasked.
  Finished refused = train("--json - --batch 8 --steps 1" + kSynthetic + budget);
  CHECK(refused.code == 2);
  CHECK(refused.err.find("it fits with bfloat16 mixed precision") != std::string::npos);
}

TEST_CASE("what makes no sense is refused by name") {
  check_error("--precision f8" + kSynthetic, "--precision", 1);
  check_error("--loss-scale 8" + kSynthetic,
              "--loss-scale is for --precision f16: f32 has no need of it");
  check_error("--precision f16 --loss-scale -1" + kSynthetic, "--loss-scale");
  check_error("--precision f16 --fused-update" + kSynthetic,
              "--fused-update cannot skip an update that overflows");
  check_error("--precision auto --batch auto" + kSynthetic,
              "--precision auto is what the batch needs");
}

TEST_CASE("a run that was resumed has the scale and the skips of one that was not") {
  TempFolder folder;
  const std::string run = " --precision f16 --steps 8 --checkpoint-every 4";
  const auto whole = trained(run + " --checkpoint " + folder.path() + "/whole");
  std::filesystem::create_directories(folder.path() + "/part");
  std::filesystem::copy(folder.path() + "/whole/step-00000004.safetensors",
                        folder.path() + "/part/step-00000004.safetensors");
  const auto part = trained(run + " --resume --checkpoint " + folder.path() + "/part");
  CHECK(part.back()["final_scale"] == whole.back()["final_scale"]);
  CHECK(part.back()["skipped_steps"] == whole.back()["skipped_steps"]);
  const std::vector<double> all = losses_of(whole), rest = losses_of(part);
  CHECK(rest == std::vector<double>(all.begin() + 4, all.end()));
  check_error("--batch 8" + kSynthetic + " --precision bf16 --steps 8 --resume --checkpoint " +
                  folder.path() + "/part",
              "is of another training: its loss scale is");
}
