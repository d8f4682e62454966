#include "brim/tests/train/every_fault.h"

#include <doctest/doctest.h>

#include "brim/autograd/trace_recorder.h"
#include "brim/base/parallel.h"
#include "brim/memory/arena_planner.h"

namespace brim::testing {
namespace {

Tensor on_meta(const Tensor& tensor) {
  return empty(tensor.shape(), {.dtype = tensor.dtype(), .device = Device::meta()});
}

memory::MakePlanner planner_of(const FaultCase& c) {
  if (c.planner != "arena") return memory::planner_named(c.planner);
  auto account = std::make_shared<memory::Account>(
      Device::meta(), std::make_unique<memory::NullSource>(), memory::planner_named("direct"));
  memory::AccountScope scope(account);
  autograd::TraceRecorder recorder(account);
  std::unique_ptr<nn::Module> model = c.make(Device::meta());
  Training training(*model, c.recompute, c.offload);
  Problem problem{on_meta(c.problem.images), on_meta(c.problem.labels)};
  for (int i = 0; i < 3; ++i) training.update(problem);
  return memory::arena_planner(std::make_shared<memory::Plan>(memory::make_plan(recorder.take())));
}

// Of images of a few pixels there is nothing for a second thread to do but to spin.
class OneThread {
 public:
  OneThread() { set_num_threads(1); }
  ~OneThread() { set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_ = num_threads();
};

/// The training that nothing disturbs, in bytes of its own.
class Undisturbed {
 public:
  explicit Undisturbed(const FaultCase& c)
      : problem_(c.problem), model_(c.make(Device::cpu())), training_(*model_) {}
  double update() {
    memory::AccountScope scope(account_);
    return training_.update(problem_);
  }
  const Training& training() const { return training_; }

 private:
  std::shared_ptr<memory::Account> account_ = memory::capped_host_account("direct");
  Problem problem_;
  std::unique_ptr<nn::Module> model_;
  Training training_;
};

}  // namespace

Faults check_every_fault(const FaultCase& c) {
  CAPTURE(c.planner);
  CAPTURE(c.recompute.name);
  const OneThread one_thread;
  Undisturbed undisturbed(c);
  auto account = std::make_shared<memory::Account>(
      Device::cpu(), std::make_unique<memory::HostSource>(), planner_of(c));
  memory::AccountScope scope(account);
  std::unique_ptr<nn::Module> model = c.make(Device::cpu());
  Training disturbed(*model, c.recompute, c.offload);
  Problem problem{clone(c.problem.images), clone(c.problem.labels)};
  const int64_t before = account->stats().live;
  Faults faults;
  auto update = [&] {
    REQUIRE(disturbed.update(problem) == undisturbed.update());
    Snapshot now(undisturbed.training());
    REQUIRE(now.difference(disturbed) == "");
    return now;
  };
  Snapshot state = update();
  for (int64_t n = 1;; ++n) {
    CAPTURE(n);
    auto shortage = refused_at(*account, n, [&] { disturbed.update(problem); });
    if (!shortage) break;
    ++faults.refused;
    faults.in_replays += shortage->site.phase == memory::Phase::recompute;
    REQUIRE(account->stats().live == before);
    REQUIRE(!disturbed.has_gradients());
    REQUIRE(shortage->injected);
    REQUIRE(shortage->section.has_value());  // the message can say where in the step it was
    if (n % c.repeat_every != 0) continue;
    REQUIRE(state.difference(disturbed) == "");
    state = update();
  }
  undisturbed.update();  // the last one was not refused
  REQUIRE(Snapshot(undisturbed.training()).difference(disturbed) == "");
  update();
  CHECK(disturbed.ema.updates() == disturbed.step.updates());
  CHECK(account->stats().live == before);
  CHECK(account->stats().mismatches == 0);
  if (const autograd::Offload* offload = disturbed.step.offload()) {
    faults.fetched = offload->stats().copies_in;
    CHECK(offload->host().stats().live == 0);
  }
  return faults;
}

}  // namespace brim::testing
