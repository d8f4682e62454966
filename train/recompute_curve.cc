#include "brim/train/recompute_curve.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "brim/autograd/node.h"
#include "brim/base/bytes.h"
#include "brim/train/predicted_time.h"
#include "brim/train/training_plan.h"

namespace brim {
namespace {

/// What a rehearsal makes again, in values of the recorded step.
class Replays final : public autograd::OpObserver {
 public:
  explicit Replays(const RecordedStep& step) : step_(step) {}

  void begin() {
    calls_.clear();
    rebuilt_.clear();
  }
  void add(const autograd::Node& node) { calls_.emplace(&node, calls_.size()); }
  void ran(const autograd::OpEvent& event) override {
    if (event.phase != autograd::Phase::recompute) return;
    auto call = calls_.find(event.node);
    if (call == calls_.end()) return;  // of a checkpoint within, which recomputes under any policy
    const std::vector<int32_t>& values = step_.values[call->second];
    for (size_t i = 0; i < event.outputs.size(); ++i)
      if (event.outputs[i].defined() && values[i] >= 0) rebuilt_.insert(values[i]);
  }
  int64_t rebuilt() const { return std::ssize(rebuilt_); }

 private:
  const RecordedStep& step_;
  std::unordered_map<const autograd::Node*, size_t> calls_;
  std::set<int32_t> rebuilt_;
};

/// Another policy, whose calls are counted as they were when the step was recorded.
class Counted final : public autograd::SavePolicy {
 public:
  Counted(std::unique_ptr<autograd::SavePolicy> policy, Replays& replays)
      : policy_(std::move(policy)), replays_(replays) {
    replays_.begin();
  }
  autograd::Decision decide(const autograd::RecordedCall& call) override {
    replays_.add(call.node);
    return policy_->decide(call);
  }
  void recorded(const std::shared_ptr<autograd::Node>& node, const Tensors& outputs) override {
    policy_->recorded(node, outputs);
  }
  memory::Reclaimer* reclaimer() override { return policy_->reclaimer(); }

 private:
  std::unique_ptr<autograd::SavePolicy> policy_;
  Replays& replays_;
};

RehearsalOptions one_micro_step(RehearsalOptions training) {
  training.trainer.steps = training.updates = 1;
  training.effective_batch = training.last_update = training.evaluated = 0;
  return training;
}

StepMemory rehearse_directly(const RehearsalOptions& training) {
  return measure_on_meta(memory::planner_named("direct"),
                         [&](const auto& state_is_held) { rehearse(training, state_is_held); });
}

class Drawing {
 public:
  explicit Drawing(const TrainingSetup& setup)
      : setup_(setup), step_(record_step(setup.rehearsal)) {
    RehearsalOptions kept = one_micro_step(setup.rehearsal);
    kept.trainer.recompute = {};
    kept_seconds_ = predicted_seconds(kept);
  }

  RecomputeCurve run(const CurveOptions& options) {
    RecomputeCurve curve{.seconds = memory::step_seconds(step_.graph)};
    memory::RecomputePlanner planner(step_.graph);
    for (const memory::RecomputePlan& plan : planner.front(options.points)) {
      CurvePoint next = curve.front.empty() ? rehearsed({"keep everything", {}}) : planned(plan);
      add(curve.front, std::move(next));
    }
    if (curve.front.size() > 1) curve.front.back().name = "least";
    for (const RecomputeWay& way : options.beside) curve.beside.push_back(rehearsed(way));
    return curve;
  }

 private:
  CurvePoint rehearsed(const RecomputeWay& way) {
    TrainingSetup setup = setup_;
    setup.rehearsal.trainer.recompute = way.recompute;
    CurvePoint point{
        .name = way.name, .recompute = way.recompute, .memory = predicted_memory(setup)};
    if (way.recompute.make_policy) time(point);
    return point;
  }

  CurvePoint planned(const memory::RecomputePlan& plan) {
    auto fates = std::make_shared<autograd::Fates>(fates_of(step_, plan.fates));
    CurvePoint point = rehearsed({"", planned_recomputation(std::move(fates), plan.wait_seconds)});
    point.bound_seconds = plan.bound_seconds;
    return point;
  }

  void time(CurvePoint& point) const {
    Replays replays(step_);
    RehearsalOptions one = one_micro_step(setup_.rehearsal);
    one.trainer.recompute = point.recompute;
    one.trainer.recompute.make_policy = [&, inner = point.recompute.make_policy] {
      return std::make_unique<Counted>(inner(), replays);
    };
    rehearse_directly(one);
    point.extra_seconds = predicted_seconds(one) - kept_seconds_;
    point.rebuilt = replays.rebuilt();
  }

  /// Packed, plans may lie in another order than the planner had them in.
  static void add(std::vector<CurvePoint>& front, CurvePoint next) {
    auto bytes = [](const CurvePoint& point) { return point.memory.peak_reserved; };
    while (front.size() > 1 && front.back().extra_seconds >= next.extra_seconds &&
           bytes(front.back()) >= bytes(next))
      front.pop_back();
    if (front.empty() ||
        (bytes(next) < bytes(front.back()) && next.extra_seconds > front.back().extra_seconds))
      front.push_back(std::move(next));
  }

  TrainingSetup setup_;
  RecordedStep step_;
  double kept_seconds_ = 0;
};

}  // namespace

RecomputeCurve recompute_curve(const TrainingSetup& setup, const CurveOptions& options) {
  return Drawing(setup).run(options);
}

RecomputeWay best_segments(const RehearsalOptions& training) {
  const auto calls = static_cast<int64_t>(record_step(training).values.size());
  const auto most = static_cast<int64_t>(2 * std::sqrt(static_cast<double>(calls)));
  RehearsalOptions one = one_micro_step(training);
  RecomputeWay best;
  int64_t least = 0;
  for (int64_t count = 2; count <= std::max<int64_t>(most, 2); ++count) {
    one.trainer.recompute = segmented_recomputation(count, ceil_div(calls, count));
    const int64_t peak = rehearse_directly(one).peak_live;
    if (!best.name.empty() && peak >= least) continue;
    least = peak;
    best = {fmt::format("segments={}", count), one.trainer.recompute};
  }
  return best;
}

}  // namespace brim
