// Updates fused into a backward pass that makes dropped values again, refused each request in turn:
// undone where no parameter had changed, told plainly where one had; the bytes always come back,
// and the update that follows has the bits of a training that keeps everything.
#include <doctest/doctest.h>

#include <algorithm>

#include "brim/autograd/trace_recorder.h"
#include "brim/memory/arena_planner.h"
#include "brim/nn/creation.h"
#include "brim/optim/sgd.h"
#include "brim/tests/train/faults.h"

using namespace brim;
using namespace brim::testing;

namespace {

struct Fused {
  Fused(Device device, const RecomputeOptions& recompute, bool is_fused)
      : model(make(device)),
        sgd(model->named_parameters(), {.momentum = 0.9}),
        step(*model, sgd, {.seed = 5, .fused_update = is_fused, .recompute = recompute}) {}

  double update(const Problem& problem) {
    return step.run(0.05, [&] { return cross_entropy((*model)(problem.images), problem.labels); });
  }
  std::vector<nn::NamedTensor> state() const {
    std::vector<nn::NamedTensor> all = model->named_parameters();
    for (const auto& more : {model->named_buffers(), sgd.named_state()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void put_back(const std::vector<float>& values) {
    auto from = values.begin();
    for (const nn::NamedTensor& each : state()) {
      std::copy_n(from, each.tensor.numel(), each.tensor.data<float>());
      from += each.tensor.numel();
    }
  }

  std::unique_ptr<SmallNet> model;
  optim::Sgd sgd;
  TrainStep step;

 private:
  static std::unique_ptr<SmallNet> make(Device device) {
    nn::CreationScope there({.device = device});
    return std::make_unique<SmallNet>();
  }
};

Problem on_meta(const Problem& problem) {
  auto like = [](const Tensor& t) {
    return empty(t.shape(), {.dtype = t.dtype(), .device = Device::meta()});
  };
  return {like(problem.images), like(problem.labels)};
}

memory::MakePlanner planner_of(const Problem& problem, const RecomputeOptions& recompute) {
  auto account = std::make_shared<memory::Account>(
      Device::meta(), std::make_unique<memory::NullSource>(), memory::planner_named("direct"));
  memory::AccountScope scope(account);
  autograd::TraceRecorder recorder(account);
  Fused fused(Device::meta(), recompute, /*is_fused=*/true);
  const Problem rehearsed = on_meta(problem);
  for (int i = 0; i < 3; ++i) fused.update(rehearsed);
  return memory::arena_planner(std::make_shared<memory::Plan>(memory::make_plan(recorder.take())));
}

struct Failures {
  int undone = 0, torn = 0, in_replays = 0;
};

/// Whether it ran.
bool update_refused_at(int64_t n, Fused& fused, const Problem& problem, memory::Account& account,
                       Failures& failures) {
  bool ran = false;
  auto note = [&](const memory::OutOfMemory& error) {
    failures.in_replays += error.shortage().site.phase == memory::Phase::recompute;
  };
  account.fail_nth(n);
  try {
    fused.update(problem);
    ran = true;
  } catch (const memory::OutOfMemory& error) {
    note(error);
    ++failures.undone;
  } catch (const TornUpdate& torn) {
    try {
      std::rethrow_if_nested(torn);
      FAIL("a torn update has its cause with it");
    } catch (const memory::OutOfMemory& error) {
      note(error);
    }
    ++failures.torn;
  }
  account.fail_nth(0);
  return ran;
}

Failures check_every_refusal(const Problem& problem, const RecomputeOptions& recompute) {
  CAPTURE(recompute.name);
  Fused calm(Device::cpu(), {}, /*is_fused=*/false);
  auto account = std::make_shared<memory::Account>(
      Device::cpu(), std::make_unique<memory::HostSource>(), planner_of(problem, recompute));
  auto calm_account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  Fused fused(Device::cpu(), recompute, /*is_fused=*/true);
  const int64_t live = account->stats().live;
  Failures failures;
  for (int64_t n = 1;; ++n) {
    CAPTURE(n);
    const std::vector<float> before = values_of(fused.state());
    const int torn = failures.torn;
    const bool ran = update_refused_at(n, fused, problem, *account, failures);
    REQUIRE(account->stats().live == live);
    if (failures.torn > torn) {
      fused.put_back(before);
      fused.step.set_updates(calm.step.updates());
    } else if (!ran) {
      REQUIRE(values_of(fused.state()) == before);
    }
    if (!ran) fused.update(problem);
    {
      memory::AccountScope apart(calm_account);
      calm.update(problem);
    }
    REQUIRE(values_of(fused.state()) == values_of(calm.state()));
    if (ran) break;
  }
  return failures;
}

}  // namespace

TEST_CASE(
    "a fused update that recomputes and is refused any request is undone, or says it is torn") {
  const Problem problem = random_problem(4, 8, 4);
  for (const RecomputeOptions& recompute :
       {free_recomputation(), segmented_recomputation(2, 4), segmented_recomputation(4, 2)}) {
    const Failures failures = check_every_refusal(problem, recompute);
    CHECK(failures.undone > 10);
    CHECK(failures.torn > 5);
    CHECK(failures.in_replays > 0);
  }
}
