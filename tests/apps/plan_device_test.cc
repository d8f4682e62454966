// Plans for GPUs, on machines without: a card by its name, as a bound; a GPU that is not here, and
// a name that is none, in one line.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "brim/base/cuda/devices.h"
#include "brim/tests/support/subprocess.h"

using namespace brim::testing;
using nlohmann::json;

namespace {

Finished plan(const std::string& arguments) { return run_command("apps/plan " + arguments); }

json plan_json(const std::string& arguments) {
  Finished run = plan("--json - " + arguments);
  CAPTURE(run.err);
  REQUIRE((run.code == 0 || run.code == 2));
  return json::parse(run.out);
}

void check_error(const std::string& arguments, const std::string& text) {
  Finished run = plan(arguments);
  CHECK(run.code == 1);
  CHECK(run.out.empty());
  CHECK_MESSAGE(run.err == text + "\n", run.err);
}

const std::string kModel = " --model resnet50 ";

}  // namespace

TEST_CASE("plan for a card: the largest batch, in so many bytes, as a bound") {
  if (!brim::cuda::built()) {
    check_error("--device h100-80gb",
                "plan: device: a plan for h100-80gb asks the kernels for GPUs what scratch they "
                "take, and brim was built without the CUDA toolkit");
    return;
  }
  const json said = plan_json("--device h100-80gb --batch auto --precision bf16" + kModel);
  const auto peak = said["predicted_peak_bytes"].get<int64_t>(),
             memory = said["device_bytes"].get<int64_t>(),
             context = said["context_bytes"].get<int64_t>();
  CHECK(said["prediction"] == "bound");
  CHECK(said["device"] == "h100-80gb");
  CHECK(memory > int64_t{79} << 30);
  CHECK(context > 0);
  const auto planned = static_cast<int64_t>(0.99 * static_cast<double>(memory));  // unasked margin
  CHECK(peak + context <= planned);
  CHECK(peak % (2 << 20) == 0);  // an arena in pages of the GPU
  const auto batch = said["batch"].get<int64_t>();
  CHECK(batch > 1000);
  const json more = plan_json("--device h100-80gb --precision bf16 --recompute free --batch " +
                              std::to_string(batch + 1) + kModel);
  CHECK(more["predicted_peak_bytes"].get<int64_t>() + context > planned);
}

TEST_CASE("plan for a card: a budget holds the context too, and is no larger than the card") {
  if (!brim::cuda::built()) {
    MESSAGE("skipped: plans for a card on CUDA (", brim::cuda::why_no_device(), ")");
    return;
  }
  const std::string batch = " --batch 32 --recompute off" + kModel;
  const json said = plan_json("--device t4-16gb" + batch);
  const auto peak = said["predicted_peak_bytes"].get<int64_t>(),
             context = said["context_bytes"].get<int64_t>();
  auto code_with = [&](int64_t budget) {
    return plan("--device t4-16gb --budget " + std::to_string(budget) + batch).code;
  };
  CHECK(code_with(peak + context) == 0);
  CHECK(code_with(peak + context - 1) == 2);
  const std::string more = " --model resnet20 --size 32 --batch 200000 --recompute off";
  CHECK(plan("--device t4-16gb --budget 1000GiB" + more).code == 2);
}

TEST_CASE("plan for a GPU: what is not here is refused in one line") {
  check_error("--device h100-80g",
              "plan: --device: expected cpu, cuda, cuda:N or a card (t4-16gb to rtx5090-32gb), got "
              "'h100-80g'; did you mean 'h100-80gb'?");
  if (std::string why = brim::cuda::why_no_device(); !why.empty())
    check_error("--device cuda", "plan: device: --device cuda cannot plan: " + why +
                                     "; for a card that is not here, name it: h100-80gb");
  if (brim::cuda::built())
    check_error("--device h100-80gb --op-times measured",
                "plan: flags: --op-times measured times the processor's ops, and not those of "
                "h100-80gb");
}
