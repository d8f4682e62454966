// Every bundled model, pruned: it trains for real, forward, backward and updates, and holds what
// was planned for its shapes, to the byte. Ratios are drawn. In a test run each model is pruned
// once by a criterion of its own, in turn; with BRIM_EVERY_RATIO set, at ten ratios by each
// criterion.
#include <doctest/doctest.h>

#include <cstdlib>

#include "brim/nn/summary.h"
#include "brim/shrink/prune.h"
#include "brim/shrink/residual_blocks.h"
#include "brim/tests/shrink/zoo.h"
#include "brim/tests/train/train_with.h"

using namespace brim;
using namespace brim::testing;

namespace {

TrainingCase case_of(const std::string& model) {
  return {.model = model, .size = static_cast<int>(zoo_input(model, 1)[1]), .epochs = 1};
}

Shape input_of(const TrainingCase& c) { return {1, c.size, c.size, 3}; }

std::unique_ptr<nn::Module> model_with_gradients(const TrainingCase& c) {
  auto model = make_model(c, Device::cpu());
  for (const nn::NamedTensor& parameter : model->named_parameters())
    parameter.tensor.set_grad(
        uniform(parameter.tensor.shape(), -1, 1, derive(RandomKey{9}, parameter.name)));
  return model;
}

/// What is otherwise than in a model of the case, with the channels gone.
nn::ModelSizes sizes_after(nn::Module& model, const TrainingCase& c,
                           const shrink::ChannelCut& cut) {
  nn::MetaScope on_meta(model);
  shrink::remove_channels(model, cut);
  return nn::sizes_beside(model, *make_model(c, Device::meta()));
}

void check_trains_as_planned(const TrainingCase& c, double flops) {
  const RehearsedPlan plan = plan_under("arena", rehearsal_of(c));
  const Trained trained = train_as(c, trainer_options(c), memory::arena_planner(plan.plan));
  CHECK(trained.losses.size() == 3);
  CHECK(trained.stats.peak_reserved == plan.predicted.peak_reserved);
  CHECK(trained.stats.peak_live == plan.predicted.peak_live);
  CHECK(trained.stats.mismatches == 0);
  CHECK(shrink::flops_of(input_of(c))(*make_model(c, Device::meta())) == flops);
}

void prune_and_train(const std::string& name, const std::string& criterion, uint64_t number) {
  const double ratio = 0.8 * random_uniform(derive(RandomKey{12}, name), 0, number);
  CAPTURE(name);
  CAPTURE(criterion);
  CAPTURE(ratio);
  TrainingCase c = case_of(name);
  auto model = model_with_gradients(c);
  const shrink::Pruner pruner(*model, input_of(c), {.criterion = shrink::criterion_of(criterion)});
  const shrink::PruningPlan plan = pruner.ratio(ratio, shrink::flops_of(input_of(c)));
  c.sizes = sizes_after(*model, c, plan.cut);
  model.reset();
  check_trains_as_planned(c, plan.after);
}

}  // namespace

TEST_CASE("pruned models train, and hold what is planned for their shapes") {
  const std::vector<std::string>& criteria = shrink::criterion_names();
  const bool every = std::getenv("BRIM_EVERY_RATIO") != nullptr;
  uint64_t turn = 0;
  for (const std::string& name : zoo()) {
    if (name == "unet") continue;  // not a classifier
    if (every) {
      for (const std::string& criterion : criteria)
        for (uint64_t i = 0; i < 10; ++i) prune_and_train(name, criterion, i);
    } else {
      prune_and_train(name, criteria[turn % criteria.size()], turn);
      ++turn;
    }
  }
}

TEST_CASE("a model without some of its blocks trains, and holds what is planned") {
  TrainingCase c = case_of("resnet20");
  auto model = make_model(c, Device::meta());
  const std::vector<std::string> blocks = shrink::residual_blocks(*model, input_of(c));
  REQUIRE(blocks.size() == 7);
  c.sizes.bypassed = {blocks[1], blocks[4]};
  const double whole = shrink::flops_of(input_of(c))(*model);
  const double flops = shrink::flops_of(input_of(c))(*make_model(c, Device::meta()));
  CHECK(flops < 0.8 * whole);
  check_trains_as_planned(c, flops);
}
