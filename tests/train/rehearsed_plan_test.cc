// What is predicted is what happens, to the byte: for every planner, for first, steady and smaller
// steps and for evaluations; and a budget of exactly that is enough.
#include "brim/train/rehearsed_plan.h"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "brim/base/parallel.h"
#include "brim/memory/out_of_memory.h"
#include "brim/memory/plan/same_threads.h"
#include "brim/memory/report/peak.h"
#include "brim/tests/support/instrumented.h"
#include "brim/tests/train/planned_training.h"

using namespace brim;
using namespace brim::testing;

namespace {

// The smaller models of the zoo, at sizes that a test has time for.
std::vector<TrainingCase> small_cases() {
  if (is_instrumented()) return {{"resnet20", 32, 4, "adamw"}, {"mobilenet_v3_large", 32, 4}};
  std::vector<TrainingCase> cases;
  for (const char* model :
       {"resnet20", "resnet18", "mobilenet_v1", "mobilenet_v2", "mobilenet_v3_large"})
    for (auto [batch, optimizer] :
         {std::pair(4, "sgd"), std::pair(4, "adamw"), std::pair(6, "sgd"), std::pair(9, "adamw")})
      cases.push_back({model, 32, batch, optimizer});
  for (int64_t batch : {3, 16}) cases.push_back({"resnet20", 32, batch});
  // At 32 pixels its last batch norms see two numbers a channel, and evaluation overflows.
  cases.push_back({"resnet50", 64, 4});
  return cases;
}

constexpr int64_t kUnit = memory::kAlignment;

}  // namespace

TEST_CASE("the arena is as high as the largest live sum, and the run holds exactly that") {
  for (const TrainingCase& c : small_cases()) {
    CAPTURE(c.name());
    RehearsedPlan planned = plan_on_meta(rehearsal_of(c));
    CHECK(planned.plan->arena_bytes == planned.plan->lower_bound);
    CHECK(planned.plan->lower_bound == planned.trace.peak_live());
    CHECK(planned.predicted.peak_reserved == planned.plan->arena_bytes);
    CHECK(planned.predicted.peak_live == planned.plan->lower_bound);
    memory::AccountStats measured = train(c, memory::arena_planner(planned.plan));
    CHECK(measured.peak_reserved == planned.predicted.peak_reserved);
    CHECK(measured.peak_live == planned.predicted.peak_live);
    CHECK(measured.by_category_at_peak == planned.predicted.at_peak);
    CHECK(measured.mismatches == 0);
  }
}

// The placement alone is another: see tests/memory/same_threads_test.cc.
TEST_CASE("threads keep their bytes from one buffer to the next, in an arena of the same size") {
  const RehearsedPlan planned = plan_on_meta(rehearsal_of({"resnet20", 32, 32}));
  const auto between = [](const memory::Plan& plan) {
    int64_t bytes = 0;
    for (const memory::PlannedProgram& program : plan.programs) {
      std::vector<memory::Lifetime> lives;
      std::vector<int64_t> offsets;
      int64_t time = 0;
      for (const memory::PlannedSection& section : program.sections)
        for (const memory::PlannedRequest& request : section.requests)
          if (const int64_t birth = time++; request.offset >= 0) {
            lives.push_back({birth, request.death, request.bytes});
            offsets.push_back(request.offset);
          }
      bytes += memory::bytes_between_threads(lives, offsets, 2);
    }
    return bytes;
  };
  const memory::Plan of_one = make_plan(planned.trace, {.threads = 1});
  const memory::Plan of_two = make_plan(planned.trace, {.threads = 2});
  CHECK(of_two.arena_bytes == of_one.arena_bytes);
  CHECK(between(of_two) < between(of_one) / 2);
  CHECK(*planned.plan == make_plan(planned.trace, {.threads = num_threads()}));
}

TEST_CASE("the direct and the caching planner hold what the meta device says, too") {
  for (const TrainingCase& c : small_cases())
    for (const char* planner : {"direct", "caching"}) {
      CAPTURE(c.name());
      CAPTURE(planner);
      auto make = memory::planner_named(planner);
      StepMemory predicted = measure_on_meta(make, rehearsal_of(c));
      memory::AccountStats measured = train(c, make);
      CHECK(measured.peak_reserved == predicted.peak_reserved);
      CHECK(measured.peak_live == predicted.peak_live);
    }
}

TEST_CASE("under each planner by its name: a plan for the arena, bytes for the others") {
  const MetaProgram program = rehearsal_of({.model = "resnet20"});
  RehearsedPlan arena = plan_under("arena", program, {.identity = "this one"});
  REQUIRE(arena.plan != nullptr);
  CHECK(arena.plan->identity == "this one");
  CHECK(arena.predicted.peak_reserved == arena.plan->arena_bytes);
  for (const char* planner : {"caching", "direct"}) {
    CAPTURE(planner);
    const StepMemory all = measure_on_meta(memory::planner_named(planner), program);
    RehearsedPlan other = plan_under(planner, program);
    CHECK(other.plan == nullptr);
    CHECK(other.predicted.peak_reserved == all.peak_reserved);
    CHECK(other.predicted.peak_live == all.peak_live);
    // With too little it runs out, and what it would take is told.
    const int64_t little = all.peak_live / 2;
    CHECK_THROWS_AS(measure_on_meta(memory::planner_named(planner), program, {.capacity = little}),
                    memory::OutOfMemory);
    CHECK(plan_under(planner, program, {.capacity = little}).predicted.peak_reserved ==
          all.peak_reserved);
  }
  CHECK_THROWS_AS(plan_under("arenas", program), ValueError);
}

TEST_CASE("a budget of the predicted peak is enough; with one unit less nothing begins") {
  for (const TrainingCase& c : {TrainingCase{"resnet20"}, TrainingCase{"mobilenet_v2"}}) {
    CAPTURE(c.name());
    RehearsedPlan planned = plan_on_meta(rehearsal_of(c));
    int64_t peak = planned.predicted.peak_reserved;
    auto make = memory::arena_planner(planned.plan);
    CHECK(train(c, make, peak).peak_reserved == peak);
    try {
      train(c, make, peak - kUnit);
      FAIL("it ran");
    } catch (const memory::OutOfMemory& error) {
      CHECK(error.shortage().requested == peak);
      CHECK(std::string(error.what()).find(std::to_string(peak)) != std::string::npos);
      CHECK(error.shortage().live == 0);
    }
  }
}

TEST_CASE("steps of several micro-steps: planned once, however often they come") {
  auto program = [](int64_t effective) {
    return [=](const std::function<void()>& state_is_held) {
      rehearse(
          {.make_model =
               [] { return nn::make_model("resnet20", {.classes = 10, .device = Device::meta()}); },
           .make_updating = [](nn::Module& m) { return make_updating(TrainingCase{}, m); },
           .trainer = trainer_options(),
           .size = 32,
           .batch = 4,
           .updates = 2,
           .effective_batch = effective},
          state_is_held);
    };
  };
  RehearsedPlan few = plan_on_meta(program(14)), many = plan_on_meta(program(42));
  CHECK(few.plan->arena_bytes == few.plan->lower_bound);
  CHECK(few.plan->arena_bytes == many.plan->arena_bytes);
  auto requests = [](const memory::Plan& plan) {
    size_t count = 0;
    for (const auto& planned : plan.programs)
      for (const auto& section : planned.sections) count += section.requests.size();
    return count;
  };
  CHECK(requests(*few.plan) == requests(*many.plan));
  // Nor rehearsed more often than they differ.
  CHECK(few.trace.buffers.size() == many.trace.buffers.size());
}

TEST_CASE("a thousand steps follow the plan and reserve nothing more" *
          doctest::skip(is_instrumented())) {
  auto program = [](Device device, int steps) {
    auto model = nn::make_model("resnet20", {.classes = 10, .device = device});
    optim::Sgd sgd(model->named_parameters(), {.momentum = 0.9});
    TrainStep step(*model, sgd);
    for (int i = 0; i < steps; ++i)
      step.run(1e-3, [&] {
        Tensor labels = zeros({2}, {.dtype = Dtype::int64, .device = device});
        return cross_entropy((*model)(zeros({2, 8, 8, 3}, {.device = device})), labels);
      });
  };
  RehearsedPlan planned = plan_on_meta([&](const auto&) { program(Device::meta(), 2); });
  auto account = std::make_shared<memory::Account>(
      Device::cpu(), std::make_unique<memory::HostSource>(), memory::arena_planner(planned.plan));
  memory::AccountScope scope(account);
  int64_t reserved = account->stats().reserved;
  program(Device::cpu(), 1000);
  CHECK(account->stats().mismatches == 0);
  CHECK(account->stats().requests > 100'000);
  CHECK(account->stats().peak_reserved == reserved);
  CHECK(reserved == planned.predicted.peak_reserved);
}

TEST_CASE("the same program gives the same plan") {
  TrainingCase c{"resnet20"};
  CHECK(*plan_on_meta(rehearsal_of(c)).plan == *plan_on_meta(rehearsal_of(c)).plan);
}

TEST_CASE("a plan for another batch is followed as far as it goes, and never lies") {
  TrainingCase small{"resnet20", 32, 4}, large{"resnet20", 32, 8};
  RehearsedPlan planned = plan_on_meta(rehearsal_of(small));
  memory::AccountStats stats = train(large, memory::arena_planner(planned.plan));
  CHECK(stats.mismatches > 0);
  CHECK(stats.peak_reserved > planned.predicted.peak_reserved);
}
