// What the table of remedies says against what the programs' flags come to, for random models,
// batches and budgets: BRIM_LADDER_TRIPLES of them, by default a few. In this process, for speed.
#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "brim/apps/support/op_times_flag.h"
#include "brim/apps/support/refusal.h"
#include "brim/apps/support/train_plan.h"
#include "brim/train/parts.h"

using namespace brim;
using namespace brim::apps;

namespace {

TrainFlags checked(TrainFlags flags) {
  flags.device = Device::cpu();
  check_flags(flags);
  set_op_times(flags);
  return flags;
}

TrainFlags flags_of(const std::string& model, int64_t batch, const std::string& budget) {
  TrainFlags flags;
  flags.data = "synthetic";
  flags.model = model;
  flags.size = 32;
  flags.classes = 10;
  flags.steps = 2;
  flags.batch_text = std::to_string(batch);
  flags.budget_text = budget;
  flags.op_times_text = "nominal";
  flags.quiet = true;
  return flags;
}

bool has(const Rung& rung, const std::string& name) {
  return std::ranges::count(rung.names, name) > 0;
}

/// The flags that ask for what a row says. Nothing where none do: a pruned model is a file.
std::optional<TrainFlags> flags_for(const Rung& rung, TrainFlags flags) {
  if (rung.changes_model) return {};
  flags.recompute_text = has(rung, "recompute") ? "auto" : "free";
  if (has(rung, "precision") || has(rung, "parameters")) flags.precision_text = "bf16";
  if (has(rung, "parameters")) flags.parameters_text = "bf16";
  if (has(rung, "optimizer state") || has(rung, "parameters")) flags.optimizer.state_text = "bf16";
  if (has(rung, "gradients")) flags.gradients_text = "bf16";
  flags.fused_update = has(rung, "fused update");
  if (has(rung, "micro-batches")) {
    flags.effective_batch = rung.setup.rehearsal.update_images();
    flags.batch_text = std::to_string(rung.setup.rehearsal.batch);
  }
  return flags;
}

struct Held {
  int64_t bytes = 0;
  bool fits = false;
};

/// What the programs say of these flags.
Held held_by(TrainFlags flags) {
  flags = checked(flags);
  const TrainData data = open_data(flags);
  Events events("");
  choose_recompute(flags, data, events);
  const int64_t bytes = flags.least_planned > 0
                            ? flags.least_planned
                            : predict_memory(flags, data, flags.batch).predicted.peak_reserved;
  return {bytes, bytes <= flags.limit()};
}

void check_combinations(const LadderResult& ladder) {
  for (const Rung& rung : ladder.considered)
    for (const Rung& part : ladder.considered) {
      if (rung.names.size() < 2 || part.names.size() != 1 || !has(rung, part.names.front()))
        continue;
      CAPTURE(fmt::format("{}", fmt::join(rung.remedies, ", ")));
      CAPTURE(part.remedies.front());
      const bool is_less = rung.memory.peak_reserved <= part.memory.peak_reserved;
      CHECK((is_less || (rung.fits && rung.relative_time < part.relative_time)));
    }
}

void check_rows(const LadderResult& ladder, const TrainFlags& asked) {
  for (const Rung& rung : ladder.considered) {
    std::optional<TrainFlags> flags = flags_for(rung, asked);
    if (!flags) continue;
    if (rung.setup.rehearsal.trainer.recompute.fates) flags->recompute_text = "auto";
    CAPTURE(fmt::format("{}", fmt::join(rung.remedies, ", ")));
    CHECK(held_by(*flags).bytes == rung.memory.peak_reserved);
  }
}

/// Whether a row fits that has no other remedies than these.
bool fits_with(const LadderResult& ladder, const std::vector<std::string>& names) {
  return std::ranges::any_of(ladder.considered, [&](const Rung& rung) {
    return rung.fits && std::ranges::all_of(rung.names, [&](const std::string& name) {
             return std::ranges::count(names, name) > 0;
           });
  });
}

/// How many images a part must have at least: batch norm wants two values per channel, and the last
/// maps may be one pixel.
int64_t least_part(TrainFlags flags, int64_t batch) {
  flags.effective_batch = batch;
  for (int64_t least = 1; least < batch; ++least) {
    flags.batch_text = std::to_string(least);
    try {
      held_by(flags);
      return least;
    } catch (const ValueError&) {
    }
  }
  return batch;
}

/// Nothing is missing of what flags of precision, micro-batches, recomputation and batch reach.
void check_refusal(const Refusal& refusal, const LadderResult& ladder, const TrainFlags& asked,
                   int64_t batch) {
  TrainFlags planned = asked;
  planned.recompute_text = "auto";
  const std::string least = std::to_string(least_part(planned, batch));
  auto in_parts = [&](TrainFlags flags) {
    flags.effective_batch = batch;
    flags.batch_text = least;
    return flags;
  };
  TrainFlags low = planned, one = planned;
  low.precision_text = "bf16";
  one.batch_text = least;
  if (held_by(low).fits) CHECK(fits_with(ladder, {"precision", "recompute"}));
  if (batch > 1 && held_by(in_parts(planned)).fits)
    CHECK(fits_with(ladder, {"micro-batches", "recompute"}));
  if (held_by(in_parts(low)).fits || held_by(one).fits) CHECK(!refusal.fits.empty());
}

void check_triple(const std::string& model, int64_t batch, double share) {
  TrainFlags asked = flags_of(model, batch, "");
  asked.recompute_text = "free";
  const int64_t whole = held_by(asked).bytes;
  asked.recompute_text = "";
  asked.budget_text = std::to_string(static_cast<int64_t>(share * static_cast<double>(whole)));
  CAPTURE(model);
  CAPTURE(batch);
  CAPTURE(asked.budget_text);
  TrainFlags flags = checked(asked);
  const TrainData data = open_data(flags);
  Events events("");
  choose_recompute(flags, data, events);
  const StepMemory need = predict_memory(flags, data, batch).predicted;
  const LadderResult ladder = climb_ladder(flags, data);
  CAPTURE(to_table(ladder));
  check_combinations(ladder);
  check_rows(ladder, asked);
  if (need.peak_reserved > flags.limit())
    check_refusal(refusal_of(flags, data, need, ladder), ladder, asked, batch);
}

}  // namespace

TEST_CASE("recomputation is planned again after the precision: both together fit") {
  const TrainFlags flags = checked(flags_of("resnet20", 64, "20MiB"));
  const TrainData data = open_data(flags);
  const LadderResult ladder = climb_ladder(flags, data);
  CAPTURE(to_table(ladder));
  const auto both = std::ranges::find_if(ladder.considered, [](const Rung& rung) {
    return rung.names == std::vector<std::string>{"precision", "recompute"};
  });
  REQUIRE(both != ladder.considered.end());
  CHECK(both->fits);
  CHECK(both->memory.peak_reserved > 19 << 20);  // and no more is made again than need be
}

TEST_CASE("precision auto stays float32 where only that fits when it is planned for") {
  // ResNet-18 with a few images is mostly parameters, of which mixed precision makes copies.
  TrainFlags wide = flags_of("resnet18", 2, "1");
  const int64_t least = held_by(wide).bytes;
  TrainFlags low = wide;
  low.precision_text = "bf16";
  REQUIRE(held_by(low).bytes > least);
  wide.budget_text = std::to_string(least);
  wide.precision_text = "auto";
  TrainFlags flags = checked(wide);
  const TrainData data = open_data(flags);
  choose_precision(flags, data, Events(""));
  CHECK(flags.precision_text == "f32");
}

TEST_CASE("rows are what flags come to, combinations less than their parts, refusals complete") {
  const char* wanted = std::getenv("BRIM_LADDER_TRIPLES");
  const int triples = wanted == nullptr ? 2 : std::atoi(wanted);
  const std::vector<std::string> models{"resnet20",     "resnet20", "resnet20",
                                        "mobilenet_v2", "resnet18", "shufflenet_v2_x1_0"};
  std::mt19937_64 random(7);
  for (int i = 0; i < triples; ++i) {
    const size_t kinds = wanted == nullptr ? 1 : models.size();
    const std::string& model = models[random() % kinds];
    // One image has no plan where the last maps are one pixel: batch norm wants two values.
    const int64_t batch = 2 + static_cast<int64_t>(random() % 63);
    check_triple(model, batch, 0.05 + 0.95 * std::uniform_real_distribution<>()(random));
  }
}
