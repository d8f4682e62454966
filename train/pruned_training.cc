#include "brim/train/pruned_training.h"

#include <utility>

#include "brim/nn/resize.h"
#include "brim/shrink/prune.h"

namespace brim {
namespace {

std::shared_ptr<memory::Account> account_apart() {
  return std::make_shared<memory::Account>(Device::meta(), std::make_unique<memory::NullSource>(),
                                           memory::planner_named("direct"));
}

}  // namespace

PrunedTraining with_fewer_channels(const RehearsalOptions& rehearsal, double share) {
  const Shape input{1, rehearsal.size, rehearsal.size, 3};
  PrunedTraining pruned{.rehearsal = rehearsal};
  shrink::ChannelCut cut;
  {
    memory::AccountScope apart(account_apart());
    const std::shared_ptr<nn::Module> model = model_on_meta(rehearsal);
    const shrink::Pruner pruner(*model, input,
                                {.criterion = shrink::Criterion::random, .global = false});
    shrink::PruningPlan plan = pruner.ratio(share, shrink::flops_of(input));
    pruned.flops_left = plan.after / plan.before;
    cut = std::move(plan.cut);
  }
  // The account in force sees the model at its size alone.
  pruned.rehearsal.make_model = [make = rehearsal.make_model, cut] {
    std::shared_ptr<nn::Module> model;
    {
      memory::AccountScope apart(account_apart());
      model = make();
      shrink::remove_channels(*model, cut);
    }
    nn::materialize(*model, Device::meta());
    return model;
  };
  return pruned;
}

}  // namespace brim
