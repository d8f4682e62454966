// --gradients, --optimizer-state and --parameters from outside: each trains in the bytes that are
// predicted, which are fewer, goes on from a checkpoint, and is refused where it makes no sense.
#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim::testing;

namespace {

std::vector<json> trained(const std::string& arguments) {
  return trained_as_predicted("--batch 4" + kSynthetic + arguments);
}

const std::string kPure = " --precision bf16 --parameters bf16 --optimizer-state bf16";

}  // namespace

TEST_CASE("each trains as predicted, in fewer bytes and with other numbers") {
  // Roundings of the state take some updates to show in a loss of float32.
  const auto wide = trained(" --steps 6"), half = trained(" --steps 6 --precision bf16");
  const auto check_less = [](const std::vector<json>& events, const std::vector<json>& than) {
    CHECK(events.back()["peak_bytes"] < than.back()["peak_bytes"]);
    CHECK(losses_of(events) != losses_of(than));
    CHECK(losses_of(events).size() == 6);
  };
  check_less(trained(" --steps 6 --gradients bf16"), wide);
  check_less(trained(" --steps 6 --optimizer-state bf16"), wide);
  check_less(trained(" --steps 6 --optimizer adamw --optimizer-state bf16"),
             trained(" --steps 6 --optimizer adamw"));
  check_less(trained(" --steps 6" + kPure), half);
  trained(" --steps 6 --micro-batches 2 --gradients bf16" + kPure);
}

TEST_CASE("the same run rounds alike, and says what it keeps in bfloat16") {
  const std::string run = " --steps 4" + kPure;
  CHECK(losses_of(trained(run)) == losses_of(trained(run)));
  Finished said = train("--batch 4 --steps 1" + kSynthetic + " --optimizer-state bf16");
  CHECK(said.out.find("its state in bfloat16") != std::string::npos);
}

TEST_CASE("a run that was resumed has the bits of one that was not, and takes no other's") {
  TempFolder folder;
  const std::string run = " --gradients bf16 --steps 6 --checkpoint-every 3" + kPure;
  const auto whole = trained(run + " --checkpoint " + folder.path() + "/whole");
  std::filesystem::create_directories(folder.path() + "/part");
  std::filesystem::copy(folder.path() + "/whole/step-00000003.safetensors",
                        folder.path() + "/part/step-00000003.safetensors");
  const auto part = trained(run + " --resume --checkpoint " + folder.path() + "/part");
  const std::vector<double> all = losses_of(whole);
  CHECK(losses_of(part) == std::vector<double>(all.begin() + 3, all.end()));
  check_error(
      "--batch 4 --steps 6 --resume" + kSynthetic + " --checkpoint " + folder.path() + "/part",
      "is of another training");
}

TEST_CASE("weights that were trained in bfloat16 are loaded into float32") {
  TempFolder folder;
  const std::string weights = folder.path() + "/w.safetensors";
  trained(" --steps 2 --save " + weights + kPure);
  trained(" --steps 1 --init " + weights);
  trained(" --steps 1 --init " + weights + kPure);
}

TEST_CASE("what does not fit is offered them") {
  const int64_t wide = trained(" --steps 1").back()["peak_bytes"];
  Finished refused = train("--json - --batch 4 --steps 1 --recompute free --budget " +
                           std::to_string(wide - 1) + kSynthetic);
  CHECK(refused.code == 2);
  const json event = events_of(refused.out).back();
  for (const char* remedy : {"gradients in bfloat16", "optimizer state in bfloat16",
                             "pure bfloat16: parameters, gradients and optimizer state"}) {
    CAPTURE(remedy);
    CAPTURE(event.dump());
    CHECK(std::ranges::any_of(event["fits"],
                              [&](const json& one) { return one["remedy"] == remedy; }));
  }
}

TEST_CASE("what makes no sense is refused by name") {
  check_error("--gradients f16" + kSynthetic, "--gradients");
  check_error("--optimizer-state f16" + kSynthetic, "--optimizer-state");
  check_error("--parameters bf16" + kSynthetic,
              "--parameters bf16 is for --precision bf16, not for f32");
  check_error("--parameters bf16 --precision f16" + kSynthetic, "not for f16");
  check_error("--parameters bf16 --precision bf16 --ema 0.9" + kSynthetic,
              "--ema averages parameters, and in bf16 the averages would stand still");
  check_error("--gradients bf16 --fused-update" + kSynthetic, "--fused-update keeps no gradients");
}
