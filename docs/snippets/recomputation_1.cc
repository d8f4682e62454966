// A training of a program's own within a budget: what to make again is chosen on the meta device,
// then the trainer runs under the plan in a capped account.
#include <cstdio>

#include "brim/brim.h"
#include "brim/memory/arena_planner.h"
#include "brim/train/recompute_plan.h"

using namespace brim;

namespace {

constexpr int64_t kBatch = 16;
constexpr int kSize = 32;

std::shared_ptr<nn::Module> make_net(Device device) {
  return nn::make_model("resnet20", {.classes = 10, .device = device});
}

Updating make_updating(nn::Module& model) {
  return {std::make_unique<optim::Sgd>(model.named_parameters(), optim::SgdOptions{}), {}};
}

}  // namespace

int main() {
  const int64_t budget = 12 << 20;
  TrainerOptions options{.steps = 2};
  // [choose]
  RehearsalOptions rehearsal{.make_model = [] { return make_net(Device::meta()); },
                             .make_updating = make_updating,
                             .trainer = options,
                             .size = kSize,
                             .batch = kBatch,
                             .updates = 2};
  RecomputeChoice choice = choose_recomputation({rehearsal, "arena"}, budget);
  if (!choice.fits) return 1;  // choice.memory.peak_reserved is the least that was found
  options.recompute = choice.recompute;
  // [/choose]
  std::printf("%lld tensors are made again, at %.1f%% more time\n",
              static_cast<long long>(choice.dropped),
              100 * choice.plan.extra_seconds / (choice.plan.seconds - choice.plan.extra_seconds));
  // [run]
  auto account =
      std::make_shared<memory::Account>(Device::cpu(), std::make_unique<memory::HostSource>(budget),
                                        memory::arena_planner(choice.arena));
  memory::AccountScope scope(account);
  auto model = make_net(Device::cpu());
  Updating updating = make_updating(*model);
  SyntheticSource source({.count = kBatch, .size = kSize, .classes = 10}, /*batches=*/2);
  Trainer trainer(*model, *updating.optimizer, {source}, options);
  trainer.run();
  // [/run]
  check(choice.dropped > 0, "the budget is too small to keep everything");
  check(account->stats().peak_reserved == choice.memory.peak_reserved, "as predicted");
  check(account->stats().mismatches == 0, "every request was planned");
}
