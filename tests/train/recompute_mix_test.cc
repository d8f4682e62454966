// Recomputation beside what else a training does: parts of an update, updates fused into backward,
// averages, other planners and optimizers, models that checkpoint by themselves. Always the bits of
// the training that keeps everything, and the bytes that were predicted.
#include <doctest/doctest.h>

#include "brim/autograd/checkpoint.h"
#include "brim/optim/adamw.h"
#include "brim/optim/sgd.h"
#include "brim/tests/train/plain_net.h"
#include "brim/tests/train/small_net.h"
#include "brim/tests/train/values.h"
#include "brim/train/recompute_plan.h"
#include "brim/train/trainer.h"

using namespace brim;
using namespace brim::testing;

namespace {

/// As `SmallNet`, which a part of it checkpoints.
struct CheckpointedNet final : nn::Module {
  CheckpointedNet() {
    register_module("body", body);
    nn::initialize(*this, /*seed=*/3);
  }
  Tensor forward(Tensor x) override {
    return autograd::checkpoint([this](Tensor t) { return body(std::move(t)); }, std::move(x));
  }
  SmallNet body;
};

struct Kind {
  std::string planner = "arena", optimizer = "sgd";
  int64_t micro_batch = 8;  ///< of 8 images an update
  bool ema = false, fused_update = false, in_place = true;
};

struct Trained {
  std::vector<double> losses, state;
};

template <class Net>
Trained train(const Kind& kind, const RecomputeOptions& recompute) {
  auto account = std::make_shared<memory::Account>(Device::cpu(),
                                                   std::make_unique<memory::HostSource>(1 << 28),
                                                   memory::planner_named("direct"));
  memory::AccountScope scope(account);
  Trained result;
  {
    Net model;
    std::unique_ptr<optim::Optimizer> optimizer;
    if (kind.optimizer == "adamw")
      optimizer = std::make_unique<optim::AdamW>(model.named_parameters());
    else
      optimizer = std::make_unique<optim::Sgd>(model.named_parameters(),
                                               optim::SgdOptions{.momentum = 0.9});
    std::unique_ptr<optim::Ema> ema;
    if (kind.ema) ema = std::make_unique<optim::Ema>(model, optim::EmaOptions{.decay = 0.9});
    RandomBatches source({.images = 8, .batches = 3, .size = 12});
    Trainer trainer(model, *optimizer, {source},
                    {.steps = 6,
                     .ema = ema.get(),
                     .micro_batch = kind.micro_batch,
                     .planner = kind.planner,
                     .fused_update = kind.fused_update,
                     .in_place = kind.in_place,
                     .recompute = recompute});
    trainer.on_step = [&](const StepReport& step) { result.losses.push_back(step.loss); };
    trainer.run();
    result.state = doubles_of(model.named_parameters());
    for (const auto& named : {model.named_buffers(), optimizer->named_state()})
      std::ranges::copy(doubles_of(named), std::back_inserter(result.state));
    if (ema) std::ranges::copy(doubles_of(ema->named_state()), std::back_inserter(result.state));
  }
  CHECK(account->stats().live == 0);
  CHECK(account->stats().mismatches == 0);
  return result;
}

template <class Net>
RehearsalOptions rehearsal(int64_t batch, int64_t effective) {
  return {.make_model = [] { return std::make_shared<Net>(); },
          .make_updating =
              [](nn::Module& model) {
                return Updating{std::make_unique<optim::Sgd>(model.named_parameters())};
              },
          .trainer = {.steps = 2},
          .size = 12,
          .batch = batch,
          .updates = 2,
          .effective_batch = effective};
}

}  // namespace

TEST_CASE_TEMPLATE("whatever else a training does, its bits are the same", Net, SmallNet,
                   CheckpointedNet) {
  const Kind kinds[] = {{},
                        {.planner = "caching"},
                        {.planner = "direct", .in_place = false},
                        {.optimizer = "adamw", .ema = true},
                        {.micro_batch = 3},  // the last part is smaller
                        {.fused_update = true},
                        {.optimizer = "adamw", .fused_update = true, .in_place = false}};
  const RecomputeOptions ways[] = {free_recomputation(), segmented_recomputation(3, 3),
                                   dynamic_eviction(200'000)};
  for (size_t i = 0; i < std::size(kinds); ++i) {
    CAPTURE(i);
    const Trained kept = train<Net>(kinds[i], {});
    CHECK(kept.losses.size() == 6);
    for (const RecomputeOptions& way : ways) {
      CAPTURE(way.name);
      const Trained with = train<Net>(kinds[i], way);
      CHECK(with.losses == kept.losses);
      CHECK(with.state == kept.state);
    }
  }
}

TEST_CASE("a step of a model that checkpoints by itself can be recorded, and planned") {
  const TrainingSetup setup{rehearsal<CheckpointedNet>(8, 0), "arena"};
  CHECK(!record_step(setup.rehearsal).graph.steps.empty());
  const RecomputeChoice choice = choose_recomputation(setup, 1);
  CHECK(!choice.fits);
  CHECK(choice.memory.peak_reserved <= predicted_memory(setup).peak_reserved);
}

TEST_CASE("a part of an update is recorded whole, however small the last one is") {
  auto forward_bytes = [](int64_t batch, int64_t effective) {
    int64_t bytes = 0;
    for (const auto& value : record_step(rehearsal<SmallNet>(batch, effective)).graph.values)
      bytes += value.bytes;
    return bytes;
  };
  CHECK(forward_bytes(8, 9) == forward_bytes(8, 0));
  CHECK(forward_bytes(8, 24) == forward_bytes(8, 0));
}
