// What the ladder considers, offers and chooses, and that what it says to fit does.
#include "brim/train/ladder.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "brim/memory/plan/plan.h"
#include "brim/nn/creation.h"
#include "brim/nn/layers.h"
#include "brim/nn/models/registry.h"
#include "brim/ops/reshape.h"
#include "brim/tests/train/planned_training.h"
#include "brim/tests/train/small_net.h"
#include "brim/train/predicted_time.h"
#include "brim/train/recompute_plan.h"

using namespace brim;
using namespace brim::testing;

namespace {

const TrainingCase kCase{"resnet20", 32, 16};

TrainingSetup setup_of(const TrainingCase& c, const std::string& planner = "arena") {
  RehearsalOptions rehearsal = rehearsal_options(c);
  rehearsal.last_update = 0;
  return {std::move(rehearsal), planner};
}

const Rung* find(const LadderResult& result, const std::string& name) {
  for (const Rung& rung : result.considered)
    if (rung.names == std::vector{name}) return &rung;
  return nullptr;
}

std::string why_not(const LadderResult& result, const std::string& name) {
  for (const NotOffered& remedy : result.not_offered)
    if (remedy.name == name) return remedy.why;
  return "";
}

/// Halves the images, say, at no cost: what a remedy of one's own may look like.
struct Free final : Remedy {
  std::string name() const override { return "free"; }
  bool changes_numbers() const override { return false; }
  Offer offer(const TrainingSetup& setup, int64_t) const override {
    TrainingSetup changed = setup;
    changed.rehearsal.batch /= 2;
    return {std::move(changed), "half of it"};
  }
};

}  // namespace

TEST_CASE("what fits is taken as it is") {
  const int64_t peak = predicted_memory(setup_of(kCase)).peak_reserved;
  LadderResult result = standard_ladder().climb(setup_of(kCase), {.limit = peak});
  REQUIRE(result.chosen == 0);
  CHECK(result.considered[0].memory.peak_reserved == peak);
  CHECK(result.considered[0].relative_time == 1);
  CHECK(!find(result, "planner"));
  CHECK(why_not(result, "planner") == "the arena is in force already");
  CHECK(why_not(result, "input as uint8") == "images are bytes already");
}

TEST_CASE("a remedy that leaves the numbers is chosen, one that changes them proposed") {
  const int64_t peak = predicted_memory(setup_of(kCase)).peak_reserved;
  LadderResult result = standard_ladder().climb(setup_of(kCase, "caching"), {.limit = peak});
  REQUIRE(result.chosen.has_value());
  CHECK(result.considered[*result.chosen].names == std::vector<std::string>{"planner"});
  CHECK(result.considered[*result.chosen].memory.peak_reserved == peak);

  // More than recomputation alone can save.
  const int64_t limit = choose_recomputation(setup_of(kCase), 1).memory.peak_reserved - 64;
  result = standard_ladder().climb(setup_of(kCase), {.limit = limit, .may_choose_all = true});
  for (const Rung& rung : result.considered) CHECK((rung.is_proposed_only || !rung.fits));
  const Rung* parts = find(result, "micro-batches");
  REQUIRE(parts);
  CHECK(parts->fits);
  CHECK(parts->changes_numbers);
  CHECK(parts->relative_time > 1);
  CHECK(parts->memory.peak_reserved <= limit);
  // And one image more at once would be too many.
  TrainingSetup more = parts->setup;
  const int64_t count = (16 + more.rehearsal.batch - 1) / more.rehearsal.batch;
  more.rehearsal.batch = (16 + count - 2) / (count - 1);
  CHECK(predicted_memory(more).peak_reserved > limit);

  REQUIRE(result.chosen.has_value());
  std::string table = to_table(result);
  CAPTURE(table);
  const Rung& chosen = result.considered[*result.chosen];
  CHECK(chosen.fits);
  CHECK(chosen.changes_numbers);
  for (const Rung& rung : result.considered)
    if (rung.fits) CHECK(chosen.relative_time <= rung.relative_time);
  CHECK(table.find("as asked for") != std::string::npos);
  CHECK(table.find("chosen") != std::string::npos);
  CHECK(table.find("too much") != std::string::npos);

  // Below what that one takes it is another.
  const int64_t less = chosen.memory.peak_reserved - 64;
  result = standard_ladder().climb(setup_of(kCase), {.limit = less, .may_choose_all = true});
  REQUIRE(result.chosen.has_value());
  CHECK(result.considered[*result.chosen].memory.peak_reserved <= less);
}

TEST_CASE("where nothing fits, what is planned is planned for the training that was changed") {
  const LadderResult result = standard_ladder().climb(setup_of(kCase), {.limit = 1});
  auto bytes_with = [&](const std::vector<std::string>& names) -> int64_t {
    for (const Rung& rung : result.considered)
      if (rung.names == names) return rung.memory.peak_reserved;
    return 0;
  };
  TrainingSetup parts = find(result, "micro-batches")->setup, planned_for_the_whole = parts;
  planned_for_the_whole.rehearsal.trainer.recompute =
      find(result, "recompute")->setup.rehearsal.trainer.recompute;
  const int64_t planned_after = bytes_with({"micro-batches", "recompute"});
  CHECK(predicted_memory(planned_for_the_whole).peak_reserved > planned_after);
  CHECK(choose_recomputation(parts, 1).memory.peak_reserved == planned_after);
  CHECK(choose_recomputation(parts, planned_after).fits);
  CHECK_FALSE(choose_recomputation(parts, planned_after - 4096).fits);
}

TEST_CASE("recomputation is chosen unasked where it is enough, for what it costs") {
  const TrainingSetup setup = setup_of(kCase);
  const int64_t limit = predicted_memory(setup).peak_reserved * 2 / 3;
  LadderResult result = standard_ladder().climb(setup, {.limit = limit});
  REQUIRE(result.chosen.has_value());
  const Rung& chosen = result.considered[*result.chosen];
  CHECK(chosen.names == std::vector<std::string>{"recompute"});
  CHECK(!chosen.changes_numbers);
  CHECK(chosen.memory.peak_reserved <= limit);
  CHECK(chosen.relative_time > 1);
  CHECK(chosen.relative_time < 1.3);  // forward once more would be about a third
  CHECK(predicted_memory(chosen.setup).peak_reserved == chosen.memory.peak_reserved);
  result = standard_ladder().climb(chosen.setup, {.limit = limit});
  CHECK(why_not(result, "recompute") == "it fits without");
}

namespace {

std::vector<double> losses(bool as_bytes) {
  SmallNet model;
  optim::Sgd sgd(model.named_parameters());
  SyntheticSource source({.count = 6, .size = 8, .classes = 4}, /*batches=*/3);
  Trainer trainer(model, sgd, {source}, {.steps = 3, .input = {.as_bytes = as_bytes}});
  std::vector<double> losses;
  trainer.on_step = [&](const StepReport& step) { losses.push_back(step.loss); };
  trainer.run();
  return losses;
}

}  // namespace

TEST_CASE("the input as bytes is offered where it is numbers, and trains with the same bits") {
  TrainingSetup numbers = setup_of(kCase);
  numbers.rehearsal.trainer.input.as_bytes = false;
  LadderResult result = standard_ladder().climb(numbers, {.limit = 1 << 30});
  const Rung* bytes = find(result, "input as uint8");
  REQUIRE(bytes);
  CHECK(!bytes->is_proposed_only);
  auto input = [](const Rung& rung) {
    return rung.memory.at_peak[static_cast<size_t>(memory::Category::input)];
  };
  // At the peak, within the network, the bytes are gone and the numbers saved, whoever made them.
  CHECK(input(*bytes) < input(result.considered[0]));
  CHECK(bytes->memory.peak_reserved <= result.considered[0].memory.peak_reserved);
  CHECK(losses(true) == losses(false));
}

TEST_CASE("a fused update is offered only where nothing else needs the gradients") {
  const TrainingCase wide{"resnet18", 64, 8};  // more pixels than gradients in factors are for
  TrainingSetup setup = setup_of(wide);
  LadderResult result = standard_ladder().climb(setup, {.limit = 1 << 30});
  const Rung* fused = find(result, "fused update");
  REQUIRE(fused);
  CHECK(!fused->changes_numbers);
  CHECK(fused->is_proposed_only);
  CHECK(fused->memory.peak_reserved < result.considered[0].memory.peak_reserved * 9 / 10);
  // Never unasked, also where it alone would do.
  CHECK(!standard_ladder().climb(setup, {.limit = fused->memory.peak_reserved}).chosen);

  setup.rehearsal.trainer.clip.norm = 1;
  CHECK(why_not(standard_ladder().climb(setup, {.limit = 1 << 30}), "fused update") ==
        "gradients are clipped by the norm of all of them");
  setup = setup_of(wide);
  setup.rehearsal.effective_batch = 16;
  CHECK(why_not(standard_ladder().climb(setup, {.limit = 1 << 30}), "fused update") ==
        "gradients of several micro-batches are added up");
  setup = setup_of(wide, "direct");
  CHECK(why_not(standard_ladder().climb(setup, {.limit = 1 << 30}), "fused update")
            .starts_with("it needs the bytes of the whole step beforehand"));
}

TEST_CASE("a remedy of one's own joins, and is combined with the others") {
  Ladder ladder = standard_ladder();
  ladder.add(std::make_unique<Free>());
  const int64_t half = predicted_memory(setup_of({"resnet20", 32, 8})).peak_reserved;
  LadderResult result = ladder.climb(setup_of(kCase), {.limit = half * 101 / 100});
  REQUIRE(result.chosen.has_value());
  CHECK(result.considered[*result.chosen].remedies == std::vector<std::string>{"half of it"});
  // Too little for it alone: with another.
  result = ladder.climb(setup_of(kCase), {.limit = half / 2, .may_choose_all = true});
  CHECK(std::ranges::any_of(result.considered, [](const Rung& rung) {
    return rung.fits && rung.names.size() > 1 && std::ranges::count(rung.names, "free") > 0;
  }));
}

TEST_CASE("predicted time: parts of an update add up, and cost what they start") {
  auto seconds = [](int64_t batch, int64_t effective) {
    RehearsalOptions options = rehearsal_options({"resnet20", 32, batch});
    options.effective_batch = effective;
    return predicted_seconds(options);
  };
  CHECK(seconds(16, 16) > seconds(8, 8));
  CHECK(seconds(4, 16) > seconds(8, 16));
  CHECK(seconds(8, 16) > seconds(16, 16));
  // Equal parts after the first take equally long.
  const double part = seconds(4, 8) - seconds(4, 4);
  CHECK(seconds(4, 40) == doctest::Approx(seconds(4, 4) + 9 * part));
  CHECK(seconds(4, 38) ==
        doctest::Approx(seconds(4, 4) + 8 * part + seconds(4, 6) - seconds(4, 4)));
}

TEST_CASE("predicted time: that gradients are stored in parts is counted once") {
  auto seconds = [](int64_t effective) {
    RehearsalOptions options = rehearsal_options({"resnet18", 32, 2});  // of few pixels at the end
    options.effective_batch = effective;
    return predicted_seconds(options);
  };
  const double next = seconds(6) - seconds(4);
  CHECK(next < seconds(4) - seconds(2));
  CHECK(seconds(16) == doctest::Approx(seconds(4) + 6 * next));
}

TEST_CASE("pruning is proposed with the bytes that a model of those shapes takes") {
  const TrainingSetup setup = setup_of(kCase);
  const StepMemory whole = predicted_memory(setup);
  const int64_t limit = whole.peak_reserved * 8 / 10;
  const LadderResult result = standard_ladder().climb(setup, {.limit = limit});
  const Rung* pruned = find(result, "pruning");
  REQUIRE(pruned);
  CHECK(pruned->fits);
  CHECK(pruned->changes_numbers);
  CHECK(pruned->is_proposed_only);
  CHECK(pruned->memory.peak_reserved <= limit);
  CHECK(pruned->memory.state < whole.state);
  CHECK(pruned->relative_time < 1);
  CHECK(pruned->remedies.front().find("a model pruned by ") == 0);
  for (size_t i = 0; i < result.considered.size(); ++i)
    if (std::ranges::count(result.considered[i].names, "pruning") > 0) CHECK(result.chosen != i);
  // What the rung rehearses is what a model that is made in those shapes takes.
  auto small = pruned->setup.rehearsal.make_model;
  nn::CreationScope on_meta({.device = Device::meta()});
  auto usual = setup.rehearsal.make_model();
  const nn::ModelSizes sizes = nn::sizes_beside(*small(), *usual);
  CHECK(sizes.shapes.size() > 40);
  TrainingSetup made = setup;
  made.rehearsal.make_model = [&sizes] {
    return std::shared_ptr<nn::Module>(nn::make_model(
        "resnet20", {.classes = 10, .seed = {}, .device = Device::meta(), .sizes = sizes}));
  };
  CHECK(predicted_memory(made).peak_reserved == pruned->memory.peak_reserved);
  CHECK(predicted_memory(made).state == pruned->memory.state);
}

namespace {

/// Says in its code how many channels there are.
class SaysWidth final : public nn::Module {
 public:
  SaysWidth() { register_modules({{"a", a}, {"fc", fc}}); }
  Tensor forward(Tensor x) override {
    return fc(reshape(global_avg_pool(a(std::move(x))), {-1, 32}));
  }
  nn::Conv2d a{3, 32};
  nn::Linear fc{32, 10};
};

/// No channels but those of its input and output.
class OneLayer final : public nn::Module {
 public:
  OneLayer() { register_modules({{"fc", fc}}); }
  Tensor forward(Tensor x) override { return fc(global_avg_pool(std::move(x))); }
  nn::Linear fc{3, 10};
};

template <class Model>
std::string why_not_pruned() {
  TrainingSetup setup = setup_of(kCase);
  setup.rehearsal.make_model = [] { return std::make_shared<Model>(); };
  const LadderResult result = standard_ladder().climb(setup, {.limit = 1});
  for (const NotOffered& remedy : result.not_offered)
    if (remedy.name == "pruning") return remedy.why;
  return "it is offered";
}

}  // namespace

TEST_CASE("pruning is not offered for a model that has no channels to lose, or cannot lose them") {
  CHECK(why_not_pruned<OneLayer>() == "the model has no channels that could go");
  CHECK(why_not_pruned<SaysWidth>().find("its code says how many there are") != std::string::npos);
}
