// --batch auto of train and plan from outside: the largest batch that fits the budget.
#include "brim/nn/models/registry.h"
#include "brim/nn/weights.h"
#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using namespace brim::testing;

namespace {

const std::string kNet =
    " --data synthetic --model resnet20 --size 32 --classes 10 --steps 2 --threads 1 "
    "--recompute off ";
const std::string kAuto = kNet + "--batch auto ";

/// The file of a model like kNet's without so many tenths of each layer's channels.
std::string pruned_model(const TempFolder& folder, const std::string& tenths) {
  const std::string whole = folder.path() + "/whole", pruned = folder.path() + "/pruned";
  nn::save_weights(*nn::make_model("resnet20", {.classes = 10}), whole, {.model = "resnet20"});
  const Finished run = run_command(
      "apps/prune --data synthetic --size 32 --classes 10 --batch 2 --op-times nominal --quiet "
      "--per-layer --to ratio=0." +
      tenths + " --weights " + whole + " --save " + pruned);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  return pruned;
}

int64_t planned_peak(int64_t batch) {
  Finished run = train(kNet + "--json - --batch " + std::to_string(batch));
  REQUIRE(run.code == 0);
  return events_of(run.out).front()["predicted_peak_bytes"];
}

}  // namespace

TEST_CASE("the largest batch for a budget trains in it; one more is refused") {
  const std::string budget = "--budget " + std::to_string(planned_peak(5) + 1000);
  Finished run = train(kAuto + "--json - " + budget);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  auto events = events_of(run.out);
  CHECK(events.front()["event"] == "plan");
  CHECK(events.front()["batch"] == 5);
  const json& done = events.back();
  CHECK(done["batch"] == 5);
  CHECK(done["peak_bytes"] == planned_peak(5));
  CHECK(done["peak_bytes"] == done["predicted_peak_bytes"]);
  CHECK(done["mismatches"] == 0);
  CHECK(train(kNet + budget + " --batch 6").code == 2);
  const int64_t peak = planned_peak(5);
  for (int64_t more : {7, 15}) CHECK(planned_peak(more) > peak + 1000);

  Finished said = train(kAuto + budget);
  CHECK(said.out.starts_with("batch 5: the largest that fits "));
  CHECK(said.out.find("; 6 would take ") != std::string::npos);
  Finished plan = run_command(
      kPlan +
      "--data synthetic --model resnet20 --size 32 --classes 10 --threads 1 --recompute off "
      "--batch auto --json - " +
      budget);
  CHECK(plan.code == 0);
  CHECK(json::parse(plan.out)["batch"] == 5);
}

TEST_CASE("the largest batch: multiples, an upper limit and a margin") {
  const int64_t peak = planned_peak(12);
  const std::string budget = "--json - --budget " + std::to_string(peak);
  auto batch_of = [&](const std::string& flags) -> int64_t {
    Finished run = train(kAuto + flags);
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    return events_of(run.out).back()["batch"];
  };
  CHECK(batch_of(budget) == 12);
  CHECK(batch_of(budget + " --batch-multiple 8") == 8);
  CHECK(batch_of(budget + " --max-batch 7") == 7);
  int64_t less = batch_of(budget + " --margin 10%");
  CHECK(planned_peak(less) <= peak * 9 / 10);
  CHECK(planned_peak(less + 1) > peak * 9 / 10);
  check_error("--batch lots",
              "expected a number of images from 1 to 1000000, auto or fastest, got 'lots'");
  check_error(kNet + "--batch 4 --max-batch 5", "are for --batch auto and fastest");
  check_error(kNet + "--margin 100%", "--margin: expected from 0 to below 100 percent, got '100%'");
}

TEST_CASE("with recomputation the largest batch is larger, and still the largest") {
  const std::string budget = "--json - --budget " + std::to_string(planned_peak(5));
  auto with = [&](const std::string& how, const std::string& batch) {
    std::string flags = kNet + budget;
    flags.replace(flags.find("off"), 3, how);
    return train(flags + " --batch " + batch);
  };
  auto found = [&](const std::string& how) -> int64_t {
    Finished run = with(how, "auto");
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    const json done = events_of(run.out).back();
    CHECK(done["peak_bytes"] <= planned_peak(5));
    CHECK(done["peak_bytes"] == done["predicted_peak_bytes"]);
    return done["batch"];
  };
  const int64_t free = found("free"), planned = found("auto");
  CHECK(free > 5);
  CHECK(planned > free);
  for (int64_t more : {planned + 1, planned + 2})
    CHECK(with("auto", std::to_string(more)).code == 2);
}

TEST_CASE("the rate follows the batch that is found, as it follows one that is given") {
  const std::string budget = "--budget " + std::to_string(planned_peak(6));
  Finished found = train(kAuto + budget), given = train(kNet + budget + " --batch 6");
  REQUIRE(found.code == 0);
  REQUIRE(given.code == 0);
  auto rate = [](const std::string& out) {
    size_t at = out.find("sgd: rate ");
    REQUIRE(at != std::string::npos);
    return out.substr(at, out.find(',', at) - at);
  };
  CHECK(rate(found.out) == rate(given.out));
}

TEST_CASE("where no batch fits, the error says what the smallest takes") {
  Finished run = train(kAuto + "--json - --budget 256KiB");
  CHECK(run.code == 2);
  const json refused = events_of(run.out).front();
  CHECK(refused["event"] == "refused");
  CHECK(refused["fits"].empty());
  CHECK(refused["needed_bytes"] >= refused["least_possible_bytes"]);
  CHECK(refused["needed_bytes"] == planned_peak(1));
}

TEST_CASE("the budget that a refusal names is enough, also beside a margin") {
  auto bytes_after = [](const std::string& text, const std::string& before) {
    REQUIRE(text.find(before) != std::string::npos);
    return std::stoll(text.substr(text.find('(', text.find(before)) + 1));
  };
  const TempFolder folder;
  for (const std::string margin : {"0", "7%"}) {
    const std::string flags = kAuto + "--steps 1 --margin " + margin + " --budget ";
    Finished refused = train(flags + "256KiB");
    REQUIRE(refused.code == 2);
    CAPTURE(refused.err);
    CHECK(refused.err.find(" bytes), at batch 1, or ") != std::string::npos);
    const int64_t bytes = bytes_after(refused.err, "the least budget that would do is ");
    CHECK(train(flags + std::to_string(bytes)).code == 0);
    CHECK(train(flags + std::to_string(bytes - 4096)).code == 2);
    // With what is proposed, and was not asked for: the flags pin that nothing is recomputed.
    const int64_t fewer = bytes_after(refused.err, ", or ");
    const auto proposes = [&](const char* text) {
      return refused.err.find(text) != std::string::npos;
    };
    std::string remedies = " --recompute auto";
    if (const size_t at = refused.err.find("a model pruned by "); at != std::string::npos)
      remedies += " --init " + pruned_model(folder, refused.err.substr(at + 18, 1));
    if (proposes("update fused into backward")) remedies += " --fused-update";
    if (proposes("pure bfloat16"))
      remedies += " --precision bf16 --parameters bf16 --optimizer-state bf16";
    CHECK(train(flags + std::to_string(fewer) + remedies).code == 0);
    CHECK(train(flags + std::to_string(fewer)).code == 2);
  }
}

TEST_CASE("an update that may come in parts is not fused into backward, and the flags are named") {
  Finished run = train(kAuto + "--effective-batch 100 --fused-update --budget 30MiB");
  CHECK(run.code == 1);
  CHECK(run.err.find("--fused-update") != std::string::npos);
}

TEST_CASE("the fastest batch is one that fits, and the curve that it was chosen from is shown") {
  const int64_t peak = planned_peak(8);
  const std::string flags =
      kNet + "--batch fastest --batch-multiple 2 --budget " + std::to_string(peak);
  Finished run = train(flags + " --json -");
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  const json done = events_of(run.out).back();
  CHECK(done["batch"] <= 8);
  CHECK(done["batch"].get<int>() % 2 == 0);
  CHECK(done["peak_bytes"] <= peak);
  CHECK(done["peak_bytes"] == done["predicted_peak_bytes"]);
  Finished said = train(flags);
  for (const char* line : {"batch 2 ", "batch 4 ", "batch 6 ", "batch 8 "}) {
    CAPTURE(line);
    CHECK(said.out.find(line) != std::string::npos);
  }
  CHECK(said.out.find("<- the knee") != std::string::npos);
  CHECK(said.out.find(": the smallest within 5% of the fastest, of those that fit") !=
        std::string::npos);
}

TEST_CASE("an effective batch comes in parts that are alike, and the line says so") {
  // 32 images fit, and 100 come in four parts of 25.
  const std::string flags = kAuto + "--effective-batch 100 --budget ";
  Finished probe = train(kNet + "--batch 32 --effective-batch 100 --json -");
  REQUIRE(probe.code == 0);
  const int64_t peak = events_of(probe.out).front()["predicted_peak_bytes"];
  Finished said = train(flags + std::to_string(peak));
  CAPTURE(said.err);
  REQUIRE(said.code == 0);
  CHECK(said.out.find("batch 25: 4 equal parts of 100 images, where up to 32 fit ") !=
        std::string::npos);
  CHECK(said.out.find("; 33 would take ") != std::string::npos);
  CHECK(said.out.find("batch norm: each micro-batch is normalised by itself") != std::string::npos);
  Finished run = train(flags + std::to_string(peak) + " --json -");
  auto events = events_of(run.out);
  CHECK(events.front()["micro_batches"] == 4);
  CHECK(events.front()["relative_time"] > 1.0);
  CHECK(events.front()["remedies"] == json{"micro-batches"});
  CHECK(events.back()["peak_bytes"] == events.back()["predicted_peak_bytes"]);
}

TEST_CASE("where parts of an update are too small for batch norm, that is no error of its own") {
  const std::string net =
      " --data synthetic --model mobilenet_v2 --size 32 --classes 10 --steps 1 --threads 1 "
      "--effective-batch 33 --budget 28MiB --recompute off --json - --batch ";
  for (const char* batch : {"auto", "11"}) {
    Finished run = train(net + batch);
    CAPTURE(run.err);
    CHECK(run.code == 2);
    CHECK(run.err.find("does not fit the budget of 28 MiB") != std::string::npos);
    CHECK(events_of(run.out).front()["event"] == "refused");
  }
}
