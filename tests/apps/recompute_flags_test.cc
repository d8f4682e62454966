// --recompute from outside: each way trains to the same losses in the bytes that plan says; what
// does not fit is refused with bytes that then do.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "brim/tests/apps/train_program.h"

using namespace brim::testing;

namespace {

const std::string kModel = " --data synthetic --model resnet20 --size 32 --classes 10 --threads 1";
const std::string kBatch = kModel + " --batch 8";

Finished plan(const std::string& arguments) { return run_command(kPlan + arguments); }

struct Trained {
  std::vector<double> losses;
  json done;
};

Trained trained(const std::string& arguments) {
  CAPTURE(arguments);
  Finished run = train("--steps 3 --json -" + arguments);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  const std::vector<json> events = events_of(run.out);
  Trained result{losses_of(events), events.back()};
  REQUIRE(result.losses.size() == 3);
  CHECK(result.done["peak_bytes"] == result.done["predicted_peak_bytes"]);
  CHECK(result.done["peak_live_bytes"] == result.done["predicted_peak_live_bytes"]);
  CHECK(result.done["mismatches"] == 0);
  return result;
}

int64_t planned_bytes(const std::string& arguments) {
  Finished run = plan("--json -" + arguments);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  return json::parse(run.out)["predicted_peak_bytes"];
}

/// The number in "the least budget that would do is 3.8 MiB (3958784 bytes)"; 0 for none.
int64_t named_budget(const std::string& message) {
  const std::string text = "the least budget that would do is ";
  const size_t at = message.find(text);
  if (at == std::string::npos) return 0;
  const size_t number = message.find('(', at);
  return std::stoll(message.substr(number + 1));
}

struct Refusal {
  std::string message;
  int64_t bytes = 0;  ///< the budget that it names
};

/// What `plan` says to be the least, also where it fits.
int64_t least_of(const std::string& arguments, int code) {
  CAPTURE(arguments);
  Finished run = plan("--json -" + arguments);
  CHECK(run.code == code);
  return json::parse(run.out)["least_possible_bytes"];
}

Refusal refusal_of(const std::string& arguments) {
  CAPTURE(arguments);
  Finished run = train("--steps 2 --json -" + arguments);
  CHECK(run.code == 2);
  const int64_t bytes = named_budget(run.err);
  CAPTURE(run.err);
  REQUIRE(bytes > 0);
  CHECK(events_of(run.out).front()["least_possible_bytes"] == bytes);
  return {run.err, bytes};
}

}  // namespace

TEST_CASE("every way to recompute has the losses of none, in the bytes that plan says") {
  const Trained kept = trained(kBatch + " --recompute off");
  const auto most = kept.done["peak_bytes"].get<int64_t>();
  const std::string some = " --budget " + std::to_string(most * 3 / 4);
  for (const std::string& flags :
       {std::string(" --recompute free"), std::string(" --recompute segments=2"),
        std::string(" --recompute segments=4"), " --recompute auto" + some, some}) {
    CAPTURE(flags);
    const Trained less = trained(kBatch + flags);
    CHECK(less.losses == kept.losses);
    CHECK(less.done["peak_bytes"] < most);
    CHECK(planned_bytes(kBatch + flags) == less.done["peak_bytes"]);
  }
}

TEST_CASE("segments work beside other planners, micro-batches, and batches that are searched for") {
  const Trained kept = trained(kBatch + " --recompute off");
  for (const std::string planner : {"caching", "direct"}) {
    const std::string flags = kBatch + " --recompute segments=3 --planner " + planner;
    const Trained less = trained(flags);
    CHECK(less.losses == kept.losses);
    CHECK(planned_bytes(flags) == less.done["peak_bytes"]);
  }
  const std::string parts = kModel + " --batch 4 --effective-batch 8 --recompute ";
  CHECK(trained(parts + "segments=3").losses == trained(parts + "off").losses);
  const std::string open = kModel + " --batch auto --budget 12MiB --recompute ";
  const Trained few = trained(open + "off"), many = trained(open + "segments=3");
  CHECK(many.done["batch"] > few.done["batch"]);
  CHECK(many.done["peak_bytes"] <= 12 << 20);
}

TEST_CASE("as many segments as there are, and one, which keeps everything") {
  const Trained kept = trained(kBatch + " --recompute off");
  const Trained one = trained(kBatch + " --recompute segments=1");
  CHECK(one.losses == kept.losses);
  CHECK(trained(kBatch + " --recompute segments=1000000").losses == kept.losses);
  for (const char* text : {"segments=0", "segments=-1", "segments=", "segments=x", "segments=1.5",
                           "segments=99999999999999999999", "parts=3"})
    check_error(
        kBatch + " --recompute " + text,
        std::string("expected off, free, auto or segments=N, N from 1 to 1000000000, got '") +
            text + "'");
}

TEST_CASE("the bytes that a refusal names do for the same flags; with a page less it names them") {
  for (const std::string flags :
       {" --batch 8", " --batch 8 --offload auto", " --batch 8 --offload auto --recompute off",
        " --batch 2 --effective-batch 8", " --batch 1 --clip-norm 1",
        " --batch auto --recompute auto"}) {
    CAPTURE(flags);
    const std::string within = kModel + flags + " --budget ";
    const Refusal refusal = refusal_of(within + "2MiB");
    const std::string enough = within + std::to_string(refusal.bytes);
    CHECK(trained(enough).done["peak_bytes"] == refusal.bytes);
    CHECK(least_of(enough, 0) == refusal.bytes);
    CHECK(least_of(within + std::to_string(refusal.bytes - 4096), 2) == refusal.bytes);
  }
}

TEST_CASE("both programs refuse with the same bytes") {
  const std::string flags = kBatch + " --budget 3MiB";
  const Finished planned = plan("--json -" + flags);
  CHECK(planned.code == 2);
  CHECK(named_budget(planned.err) == refusal_of(flags).bytes);
  CHECK(json::parse(planned.out)["least_possible_bytes"] == named_budget(planned.err));
}

TEST_CASE("the least is of what the flags leave to the budget, and no more than of less of it") {
  const std::string within = kBatch + " --budget 20MiB";
  const int64_t all = least_of(within, 0), kept = least_of(within + " --recompute off", 0),
                moved = least_of(within + " --recompute off --offload auto", 0),
                both = least_of(within + " --offload auto", 0);
  CHECK(all < kept);
  CHECK(moved < kept);
  CHECK(both <= std::min(all, moved));
  CHECK(least_of(kBatch + " --recompute auto", 0) == all);
  CHECK(least_of(kBatch + " --recompute free", 0) == planned_bytes(kBatch + " --recompute free"));
}

namespace {

/// The flags that ask for the remedies of this text; which ones take the least depends on what the
/// processor computes in halves.
std::string flags_for(const std::string& remedies) {
  auto has = [&](const std::string& text) { return remedies.find(text) != std::string::npos; };
  const bool pure = has("pure bfloat16: parameters");
  std::string flags;
  if (pure || has("bfloat16 mixed precision")) flags += " --precision bf16";
  if (pure) flags += " --parameters bf16";
  if (pure || has(" optimizer state ")) flags += " --optimizer-state bf16";
  if (has(" gradients in bfloat16")) flags += " --gradients bf16";
  if (has("update fused into backward")) flags += " --fused-update";
  const std::string parts = " micro-batches of ";
  if (const size_t at = remedies.find(parts); at != std::string::npos)
    return flags + " --effective-batch 8 --batch " +
           std::to_string(std::stoi(remedies.substr(at + parts.size())));
  return flags + (has(" with batch 1") ? " --batch 1" : " --batch 8");
}

}  // namespace

TEST_CASE("remedies that are not taken unasked are named with the bytes, which then do with them") {
  for (const char* asked : {"auto", "off"}) {
    const Refusal refusal = refusal_of(kBatch + " --budget 1MiB --recompute " + asked);
    CAPTURE(refusal.message);
    const size_t or_else = refusal.message.find(", or ");
    REQUIRE(or_else != std::string::npos);
    const std::string named =
        refusal.message.substr(or_else, refusal.message.find(", or ", or_else + 1) - or_else);
    const int64_t bytes = std::stoll(named.substr(named.find('(') + 1));
    CHECK(bytes < refusal.bytes);
    const std::string changed = kModel + flags_for(named) + " --recompute auto --budget ";
    CHECK(trained(changed + std::to_string(bytes)).done["peak_bytes"] == bytes);
    CHECK(least_of(changed + std::to_string(bytes - 4096), 2) == bytes);
  }
}
