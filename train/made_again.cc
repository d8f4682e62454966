#include "brim/train/made_again.h"

#include <set>
#include <unordered_map>

#include "brim/autograd/node.h"
#include "brim/train/predicted_time.h"
#include "brim/train/step_memory.h"

namespace brim {
namespace {

/// What a rehearsal makes again, in values of the recorded step.
class Replays final : public autograd::OpObserver {
 public:
  explicit Replays(const RecordedStep& step) : step_(step), saved_(saved_values(step)) {}

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
      if (event.outputs[i].defined() && values[i] >= 0 && saved_[static_cast<size_t>(values[i])])
        rebuilt_.insert(values[i]);
  }
  int64_t rebuilt() const { return std::ssize(rebuilt_); }

 private:
  const RecordedStep& step_;
  std::vector<bool> saved_;
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
  bool keeps_for(const autograd::Node& reader, int i) override {
    return policy_->keeps_for(reader, i);
  }
  void recorded(const std::shared_ptr<autograd::Node>& node, const Tensors& outputs) override {
    policy_->recorded(node, outputs);
  }
  memory::Reclaimer* reclaimer() override { return policy_->reclaimer(); }

 private:
  std::unique_ptr<autograd::SavePolicy> policy_;
  Replays& replays_;
};

}  // namespace

std::vector<bool> saved_values(const RecordedStep& step) {
  std::vector<bool> saved(step.graph.values.size());
  for (const auto& reader : step.graph.steps)
    for (int32_t read : reader.reads) {
      const auto value = static_cast<size_t>(read);
      saved[value] = step.graph.values[value].may_drop;
    }
  return saved;
}

MicroStepAgain::MicroStepAgain(const RehearsalOptions& training)
    : one_(training.one_update()), step_(record_step(training)) {
  one_.trainer.recompute = {};
  kept_seconds_ = predicted_seconds(one_);
}

MadeAgain MicroStepAgain::with(const RecomputeOptions& way) const {
  if (!way.make_policy) return {};
  Replays replays(step_);
  RehearsalOptions one = one_;
  one.trainer.recompute = way;
  const double seconds = predicted_seconds(one) - kept_seconds_;
  one.trainer.recompute.make_policy = [&] {
    return std::make_unique<Counted>(way.make_policy(), replays);
  };
  measure_on_meta(memory::planner_named("direct"),
                  [&](const auto& state_is_held) { rehearse(one, state_is_held); });
  return {.values = replays.rebuilt(), .seconds = seconds};
}

MadeAgain made_again(const RehearsalOptions& training) {
  if (!training.trainer.recompute.make_policy) return {};
  return MicroStepAgain(training).with(training.trainer.recompute);
}

}  // namespace brim
