// What fails around a step with all that it can have, AdamW, clipping, averages: the making of it,
// allocation by allocation; gradients that are not finite; averages in the model's place. For steps
// that run out of memory see out_of_memory_test.cc.
#include "brim/tests/train/faults.h"

#include <doctest/doctest.h>

using namespace brim;
using namespace brim::testing;

TEST_CASE("an optimizer, averages and a step that fail at any allocation leave no bytes behind") {
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  SmallNet model;
  int64_t before = account->stats().live, n = 1;
  while (refused_at(*account, n, [&] { Training{model}; })) {
    REQUIRE(account->stats().live == before);
    ++n;
  }
  // Both averages of AdamW and the one of the weights, of eight parameters; four buffers twice.
  CHECK(n > 3 * 8 + 2 * 4);
  CHECK(account->stats().live == before);
}

TEST_CASE("a gradient that is not finite leaves moments and averages as they were") {
  Problem problem = random_problem(4, 8, 4);
  SmallNet model;
  Training training(model);
  training.update(problem);
  Snapshot state(training);
  training.step.begin();
  training.step.micro_step([&] { return cross_entropy(model(problem.images), problem.labels); });
  model.fc.bias.grad().data<float>()[0] = INFINITY;
  CHECK_THROWS_WITH_AS(training.step.prepare(0.1), doctest::Contains("'fc.bias' is not finite"),
                       ValueError);
  training.step.commit();
  CHECK(state.difference(training) == "");
  CHECK(training.ema.updates() == 1);
}

TEST_CASE("no step begins while the averages are in the model's place") {
  Problem problem = random_problem(4, 8, 4);
  SmallNet model;
  Training training(model);
  training.update(problem);
  Snapshot state(training);
  {
    optim::EmaScope averaged(training.ema);
    CHECK_THROWS_WITH_AS(training.update(problem),
                         doctest::Contains("the averages are in the model's place"), ValueError);
  }
  CHECK(state.difference(training) == "");
  CHECK_NOTHROW(training.update(problem));
}
