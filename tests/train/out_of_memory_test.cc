// A step that runs out of memory, wherever in it and under every planner: bytes, gradients, the
// state of model, optimizer and averages are as before it, and the same step then runs, with the
// bits of one that nothing disturbed.
#include "brim/memory/out_of_memory.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>

#include "brim/nn/models/registry.h"
#include "brim/tests/train/faults.h"

using namespace brim;
using namespace brim::testing;

namespace {

struct Case {
  std::string planner;
  std::function<std::unique_ptr<nn::Module>()> make;
  Problem problem;
  /// After how many refused attempts the step is run again; state is compared after each of them.
  int64_t repeat_every = 1;
};

/// Requests that were refused, each once.
int64_t check_every_fault(const Case& c) {
  CAPTURE(c.planner);
  std::unique_ptr<nn::Module> calm = c.make();
  Training undisturbed(*calm);
  auto account = memory::capped_host_account(c.planner);
  memory::AccountScope scope(account);
  std::unique_ptr<nn::Module> model = c.make();
  Training disturbed(*model);
  Problem problem{clone(c.problem.images), clone(c.problem.labels)};
  int64_t before = account->stats().live, n = 1;
  auto update = [&] {
    REQUIRE(disturbed.update(problem) == undisturbed.update(c.problem));
    Snapshot now(undisturbed);
    REQUIRE(now.difference(disturbed) == "");
    return now;
  };
  Snapshot state = update();
  for (;; ++n) {
    CAPTURE(n);
    auto shortage = refused_at(*account, n, [&] { disturbed.update(problem); });
    if (!shortage) break;
    REQUIRE(account->stats().live == before);
    REQUIRE(!disturbed.has_gradients());
    REQUIRE(state.difference(disturbed) == "");
    REQUIRE(shortage->injected);
    REQUIRE(shortage->section.has_value());  // the message can say where in the step it was
    if (n % c.repeat_every == 0) state = update();
  }
  undisturbed.update(c.problem);  // the last one was not refused
  REQUIRE(Snapshot(undisturbed).difference(disturbed) == "");
  update();
  CHECK(disturbed.ema.updates() == disturbed.step.updates());
  CHECK(account->stats().live == before);
  return n - 1;
}

const std::vector<std::string> kPlanners{"direct", "caching"};

void check_model(const std::string& name, int64_t size, int64_t least) {
  for (const std::string& planner : kPlanners)
    CHECK(
        check_every_fault({.planner = planner,
                           .make = [&] { return nn::make_model(name, {.classes = 4, .seed = 1}); },
                           .problem = random_problem(2, size, 4),
                           .repeat_every = 16}) > least);
}

const bool kSkipSlow = std::getenv("BRIM_SKIP_SLOW") != nullptr;

}  // namespace

TEST_CASE("a step that is refused any request is undone, and repeats bit for bit") {
  for (const std::string& planner : kPlanners)
    CHECK(check_every_fault({.planner = planner,
                             .make = [] { return std::make_unique<SmallNet>(); },
                             .problem = random_problem(4, 8, 4)}) > 20);
}

// Under the sanitizers the small network has to do: the same code, in a hundredth of the time.
// Each convolution, norm and addition asks for one buffer at least, forward and backward.
TEST_CASE("resnet20: a step that is refused any request is undone" * doctest::skip(kSkipSlow)) {
  check_model("resnet20", 8, /*least=*/2 * (20 + 20));
}

TEST_CASE("mobilenet_v3_small: a step that is refused any request is undone" *
          doctest::skip(kSkipSlow)) {
  check_model("mobilenet_v3_small", 32, /*least=*/2 * (52 + 34));
}
