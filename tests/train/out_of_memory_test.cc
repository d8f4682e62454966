// A step that runs out of memory, wherever in it and under every planner: bytes, gradients, the
// state of model, optimizer and averages are as before it, and the same step then runs, with the
// bits of one that nothing disturbed.
#include "brim/memory/out_of_memory.h"

#include <doctest/doctest.h>

#include "brim/nn/creation.h"
#include "brim/nn/models/registry.h"
#include "brim/tests/support/instrumented.h"
#include "brim/tests/train/every_fault.h"

using namespace brim;
using namespace brim::testing;

namespace {

const std::vector<std::string> kPlanners{"direct", "caching", "arena"};

void check_model(const std::string& name, int64_t size, int64_t least) {
  for (const std::string& planner : kPlanners)
    CHECK(check_every_fault({.planner = planner,
                             .make =
                                 [&](Device device) {
                                   return nn::make_model(
                                       name, {.classes = 4, .seed = 1, .device = device});
                                 },
                             .problem = random_problem(2, size, 4),
                             .repeat_every = 16})
              .refused > least);
}

}  // namespace

TEST_CASE("a step that is refused any request is undone, and repeats bit for bit") {
  for (const std::string& planner : kPlanners)
    CHECK(check_every_fault({.planner = planner,
                             .make =
                                 [](Device device) {
                                   nn::CreationScope there({.device = device});
                                   return std::make_unique<SmallNet>();
                                 },
                             .problem = random_problem(4, 8, 4)})
              .refused > 20);
}

// Under the sanitizers the small network has to do: the same code, in a hundredth of the time.
// Each convolution, norm and addition asks for one buffer at least, forward and backward.
TEST_CASE("resnet20: a step that is refused any request is undone" *
          doctest::skip(is_instrumented())) {
  check_model("resnet20", 8, /*least=*/2 * (20 + 20));
}

TEST_CASE("mobilenet_v3_small: a step that is refused any request is undone" *
          doctest::skip(is_instrumented())) {
  check_model("mobilenet_v3_small", 32, /*least=*/2 * (52 + 34));
}
