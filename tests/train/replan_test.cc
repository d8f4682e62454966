// A training that is planned again midway: under another planner, with the bytes moved, it computes
// the same bits, and what follows the plan follows it from the first step.
#include <doctest/doctest.h>

#include <algorithm>

#include "brim/autograd/trace_recorder.h"
#include "brim/memory/arena_planner.h"
#include "brim/nn/creation.h"
#include "brim/optim/sgd.h"
#include "brim/tests/train/small_net.h"
#include "brim/train/rehearsed_plan.h"
#include "brim/train/train_step.h"

using namespace brim;
using namespace brim::testing;

namespace {

constexpr int kBefore = 3, kAfter = 4;  // steps

struct Batches {
  int64_t whole = 12, part = 12;  ///< samples of an update, and of its micro-steps
};

/// Updates of SmallNet, with momentum and dropout; made again on the meta device to be rehearsed.
class Training {
 public:
  explicit Training(Device device)
      : device_(device),
        net_(nn::make<SmallNet>({.device = device})),
        sgd_(net_->named_parameters(), {.momentum = 0.9}),
        step_(*net_, sgd_, {.seed = 5}) {}

  double update(const Batches& batches) {
    double loss = 0;
    step_.begin();
    for (int64_t first = 0; first < batches.whole; first += batches.part) {
      double weight = static_cast<double>(batches.part) / static_cast<double>(batches.whole);
      loss += weight * step_.micro_step([&] { return loss_of(batches.part, first); },
                                        {.weight = weight,
                                         .first_sample = static_cast<uint64_t>(first),
                                         .samples = batches.part});
    }
    step_.prepare(0.05);
    step_.commit();
    return loss;
  }
  std::vector<float> values() const {
    std::vector<float> all = values_of(net_->named_parameters());
    for (const auto& more : {values_of(net_->named_buffers()), values_of(sgd_.named_state())})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  const SmallNet& net() const { return *net_; }

 private:
  Tensor loss_of(int64_t samples, int64_t first) {
    auto key = RandomKey{static_cast<uint64_t>(100 * step_.updates() + first)};
    Tensor labels = zeros({samples}, {.dtype = Dtype::int64, .device = device_});
    return cross_entropy((*net_)(uniform({samples, 8, 8, 3}, -1, 1, key, {.device = device_})),
                         labels);
  }

  Device device_;
  std::unique_ptr<SmallNet> net_;
  optim::Sgd sgd_;
  TrainStep step_;
};

std::shared_ptr<const memory::Plan> rehearse(const Batches& batches) {
  return plan_on_meta([&](const auto&) {
           Training training(Device::meta());
           for (int i = 0; i < 2; ++i) training.update(batches);
         })
      .plan;
}

struct Run {
  std::vector<double> losses;
  std::vector<float> values;
};

/// `between` may be empty.
Run train(const std::shared_ptr<memory::Account>& account, const Batches& after,
          const std::function<void(Training&)>& between = {}) {
  memory::AccountScope scope(account);
  Training training(Device::cpu());
  Run run;
  for (int i = 0; i < kBefore; ++i) run.losses.push_back(training.update({}));
  if (between) between(training);
  for (int i = 0; i < kAfter; ++i) run.losses.push_back(training.update(after));
  run.values = training.values();
  return run;
}

}  // namespace

TEST_CASE("replanned midway to an arena, a training has the same bits and follows the plan") {
  const Run expected = train(memory::capped_host_account("caching"), {});
  REQUIRE(expected.losses.front() != expected.losses.back());
  auto plan = rehearse({});
  for (const char* before : {"caching", "direct"}) {
    CAPTURE(before);
    auto account = memory::capped_host_account(before);
    account->set_checking(true);
    Run run = train(account, {}, [&](Training&) {
      account->set_cap(plan->arena_bytes);
      account->replan(memory::arena_planner(plan));
      account->reset_peak();
    });
    CHECK(run.losses == expected.losses);
    CHECK(run.values == expected.values);
    CHECK(account->stats().mismatches == 0);
    CHECK(account->stats().peak_reserved == plan->arena_bytes);
    CHECK(account->stats().live == 0);
  }
}

TEST_CASE("replanned midway for a smaller budget, it goes on in smaller parts within it") {
  const Batches smaller{.part = 4};
  const Run expected = train(memory::capped_host_account("caching"), smaller);
  auto large = rehearse({}), small = rehearse(smaller);
  REQUIRE(small->arena_bytes < large->arena_bytes);
  auto account = std::make_shared<memory::Account>(
      Device::cpu(), std::make_unique<memory::HostSource>(large->arena_bytes),
      memory::arena_planner(large));
  Run run = train(account, smaller, [&](Training&) {
    account->set_cap(small->arena_bytes);
    account->replan(memory::arena_planner(small));
    account->reset_peak();
  });
  CHECK(run.losses == expected.losses);
  CHECK(run.values == expected.values);
  CHECK(account->stats().mismatches == 0);
  CHECK(account->stats().peak_reserved == small->arena_bytes);
}

TEST_CASE("tensors, views and what a user keeps have the same values after a move") {
  auto account = memory::capped_host_account("caching");
  train(account, {}, [&](Training& training) {
    Tensor weight = training.net().conv1.weight;
    Tensor kept = uniform({100}, -1, 1, RandomKey{9}), none = zeros({0});
    Tensor view(kept.storage(), {.shape = {50}, .strides = {2}, .offset = 1});
    const auto weights = weight.to_vector<float>(), values = view.to_vector<float>();
    const void* address = kept.data();
    account->replan(memory::planner_named("direct"));
    CHECK(kept.data() != address);
    CHECK(none.data() == nullptr);
    CHECK(weight.to_vector<float>() == weights);
    CHECK(view.to_vector<float>() == values);
    fill(kept, 3);
    CHECK(view.to_vector<float>() == std::vector<float>(50, 3));
  });
}

TEST_CASE("a trace of steps before and after a move is that of steps without one") {
  auto trace_with = [](bool moves) {
    auto account = memory::capped_host_account("caching");
    memory::AccountScope scope(account);
    Training training(Device::cpu());
    autograd::TraceRecorder recorder(account);
    training.update({});
    if (moves) account->replan(memory::planner_named("direct"));
    training.update({});
    memory::Trace trace = recorder.take();
    for (memory::TraceOp& op : trace.ops) op.begin_seconds = op.end_seconds = 0;
    return trace;
  };
  memory::Trace moved = trace_with(true), stayed = trace_with(false);
  CHECK(moved.buffers == stayed.buffers);
  CHECK(moved.ops == stayed.ops);
  CHECK(moved.sections == stayed.sections);
}

TEST_CASE("within an update nothing moves, and the update goes on") {
  auto account = memory::capped_host_account("caching");
  memory::AccountScope scope(account);
  SmallNet net;
  optim::Sgd sgd(net.named_parameters(), {});
  TrainStep step(net, sgd);
  auto problem = random_problem(4, 8, 4);
  auto loss = [&] {
    CHECK_THROWS_AS(account->replan(memory::planner_named("direct")), ValueError);
    return cross_entropy(net(problem.images), problem.labels);
  };
  step.begin();
  CHECK_THROWS_AS(account->replan(memory::planner_named("direct")), ValueError);
  step.micro_step(loss);
  CHECK_THROWS_AS(account->replan(memory::planner_named("direct")), ValueError);
  step.prepare(0.1);
  step.commit();
  account->replan(memory::planner_named("direct"));
  CHECK(step.updates() == 1);
}
