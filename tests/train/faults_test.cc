// Running out of memory with all that a step can have: AdamW, clipping, averages. Each allocation
// fails in turn, from the making of the optimizer on; no byte may stay behind, and what is then
// done again has the bits of a run that nothing disturbed.
#include <doctest/doctest.h>

#include "brim/memory/out_of_memory.h"
#include "brim/optim/adamw.h"
#include "brim/optim/ema.h"
#include "brim/tests/train/small_net.h"
#include "brim/train/train_step.h"

using namespace brim;
using namespace brim::testing;

namespace {

// What is made around a model to train it.
struct Training {
  explicit Training(nn::Module& from)
      : model(from),
        adamw(model.named_parameters(), {.groups = optim::no_decay(model)}),
        ema(model, {.decay = 0.5}),
        step(model, adamw, {.seed = 5, .clip = {.norm = 0.5, .value = 0.1}, .ema = &ema}) {}

  double update(const Problem& problem) {
    return step.run(0.01, [&] { return cross_entropy(model(problem.images), problem.labels); });
  }
  std::vector<float> state() const {
    auto all = values_of(model.named_parameters());
    for (const auto& more : {values_of(model.named_buffers()), values_of(adamw.named_state()),
                             values_of(ema.named_state())})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  nn::Module& model;
  optim::AdamW adamw;
  optim::Ema ema;
  TrainStep step;
};

/// Runs `work` with its nth allocation refused; whether there was one.
template <class Work>
bool fails_at(memory::Account& account, int64_t n, const Work& work) {
  account.fail_nth(n);
  bool failed = false;
  try {
    work();
  } catch (const memory::OutOfMemory&) {
    failed = true;
  }
  account.fail_nth(0);
  return failed;
}

}  // namespace

TEST_CASE("an optimizer, averages and a step that fail at any allocation leave no bytes behind") {
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  SmallNet model;
  int64_t before = account->stats().live, n = 1;
  while (fails_at(*account, n, [&] { Training{model}; })) {
    REQUIRE(account->stats().live == before);
    ++n;
  }
  // Both averages of AdamW and the one of the weights, of eight parameters; four buffers twice.
  CHECK(n > 3 * 8 + 2 * 4);
  CHECK(account->stats().live == before);
}

TEST_CASE("a step with AdamW, clipping and averages is undone, and repeats bit for bit") {
  Problem problem = random_problem(4, 8, 4);
  SmallNet untouched;
  Training undisturbed(untouched);
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  SmallNet model;
  Training disturbed(model);
  Problem local{clone(problem.images), clone(problem.labels)};
  int64_t before = account->stats().live;
  for (int64_t n = 1;; ++n) {
    CAPTURE(n);
    auto state = disturbed.state();
    bool failed = fails_at(*account, n, [&] { disturbed.update(local); });
    REQUIRE(account->stats().live == before);
    if (failed) {
      REQUIRE(disturbed.state() == state);
      disturbed.update(local);
    }
    undisturbed.update(problem);
    REQUIRE(disturbed.state() == undisturbed.state());
    if (failed) continue;
    REQUIRE(n > 20);  // the faults reached the end of the step
    break;
  }
  CHECK(disturbed.ema.updates() == disturbed.step.updates());
}

TEST_CASE("a gradient that is not finite leaves moments and averages as they were") {
  Problem problem = random_problem(4, 8, 4);
  SmallNet model;
  Training training(model);
  training.update(problem);
  auto state = training.state();
  training.step.begin();
  training.step.micro_step([&] { return cross_entropy(model(problem.images), problem.labels); });
  model.fc.bias.grad().data<float>()[0] = INFINITY;
  CHECK_THROWS_WITH_AS(training.step.prepare(0.1), doctest::Contains("'fc.bias' is not finite"),
                       ValueError);
  training.step.commit();
  CHECK(training.state() == state);
  CHECK(training.ema.updates() == 1);
}

TEST_CASE("no step begins while the averages are in the model's place") {
  Problem problem = random_problem(4, 8, 4);
  SmallNet model;
  Training training(model);
  training.update(problem);
  auto state = training.state();
  {
    optim::EmaScope averaged(training.ema);
    CHECK_THROWS_WITH_AS(training.update(problem),
                         doctest::Contains("the averages are in the model's place"), ValueError);
  }
  CHECK(training.state() == state);
  CHECK_NOTHROW(training.update(problem));
}
