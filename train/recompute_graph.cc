// A step as recomputation sees it, read off a rehearsal by a policy that keeps everything.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "brim/autograd/node.h"
#include "brim/base/bytes.h"
#include "brim/train/op_runs.h"
#include "brim/train/recompute_plan.h"
#include "brim/train/training_plan.h"

namespace brim {
namespace {

using autograd::Node;
using memory::RecomputeGraph;

constexpr int64_t kLeastWorth = 4096;  // bytes; smaller values are statistics and losses

int64_t bytes_of(const autograd::TensorInfo& info) {
  return ceil_div(numel(info.shape) * size_of(info.dtype), memory::kAlignment) * memory::kAlignment;
}

// What happened, in the order in which it did.
struct Call {
  const Node* node = nullptr;
  std::vector<int32_t> inputs;   // values; -1: of a source
  std::vector<int32_t> outputs;  // values; -1: undefined, or a view of a source
  int64_t peak = 0;              // live bytes while it ran
  size_t run = 0;                // number of its `OpRun`
};
struct Step {
  int32_t call = 0;
  int64_t peak = 0;
  std::vector<size_t> runs;  // last its own; before it those of a checkpoint within
};

class Recorder final : public autograd::OpObserver {
 public:
  explicit Recorder(OpRuns& runs) : runs_(runs) {}

  void begin() {
    calls_.clear();
    steps_.clear();
    numbers_.clear();
    overwritten_.clear();
    replays_.clear();
    runs_of_step_.clear();
    graph_ = {};
    account_ = memory::account(Device::meta());
    account_->reset_peak();
    graph_.fixed_bytes = account_->stats().live;
  }

  void ran(const autograd::OpEvent& event) override {
    if (account_ == nullptr) return;
    peak_ = std::max(peak_, account_->stats().peak_live);
    account_->reset_peak();
    if (event.phase == autograd::Phase::forward) return;
    runs_of_step_.push_back(runs_.current());
    auto call = numbers_.find(event.node);
    if (event.phase != autograd::Phase::backward || call == numbers_.end())
      return;  // of a checkpoint within: a part of what comes next
    steps_.push_back({call->second, std::exchange(peak_, 0), std::exchange(runs_of_step_, {})});
    graph_.steps.push_back({.reads = saved_[static_cast<size_t>(call->second)]});
  }

  void add(const autograd::RecordedCall& recorded) {
    const Node& node = recorded.node;
    const auto number = static_cast<int32_t>(calls_.size());
    Call call{.node = &node, .peak = std::exchange(peak_, 0), .run = runs_.current()};
    for (const auto& value : recorded.inputs) call.inputs.push_back(number_of(value.get()));
    for (size_t i = 0; i < recorded.outputs.size(); ++i)
      call.outputs.push_back(add_output(recorded, call, number, i));
    numbers_[&node] = number;
    calls_.push_back(std::move(call));
    add_op(recorded);
  }

  RecordedStep take(const SeenRuns& seen, const OpTimes& times) && {
    settle_forward();
    settle_backward();
    settle_seconds(seen, times);
    RecordedStep step{std::move(graph_), {}};
    for (Call& call : calls_) step.values.push_back(std::move(call.outputs));
    return step;
  }

 private:
  int32_t number_of(const autograd::Value* value) const {
    if (value == nullptr) return -1;
    std::shared_ptr<Node> producer = value->producer();
    if (producer == nullptr) return -1;
    auto found = numbers_.find(producer.get());
    if (found == numbers_.end()) return -1;
    return calls_[static_cast<size_t>(found->second)].outputs[static_cast<size_t>(value->output())];
  }

  int32_t add_output(const autograd::RecordedCall& recorded, const Call& call, int32_t number,
                     size_t i) {
    const Tensor& output = recorded.outputs[i];
    if (!output.defined()) return -1;
    for (size_t k = 0; k < recorded.inputs.size(); ++k) {
      const auto& input = recorded.inputs[k];
      if (input == nullptr) continue;
      if (input->is_of(output)) return call.inputs[k];  // a view
      if (static_cast<int>(k) != recorded.overwritten || i > 0 || call.inputs[k] < 0) continue;
      // The bytes go on as those of the output. A replay has both.
      overwritten_[number] += bytes_of(recorded.node.inputs[k]);
      graph_.values[static_cast<size_t>(call.inputs[k])].bytes = 0;
    }
    const int64_t bytes = bytes_of(recorded.node.outputs[i]);
    const bool is_anchor = std::ranges::count(recorded.node.op->anchors(), static_cast<int>(i)) > 0;
    graph_.values.push_back({.bytes = bytes,
                             .producer = number,
                             .may_drop = bytes >= kLeastWorth && !is_anchor,
                             .cheap = recorded.node.op->is_one_pass()});
    return static_cast<int32_t>(graph_.values.size()) - 1;
  }

  static std::vector<int32_t> known(const std::vector<int32_t>& values) {
    std::vector<int32_t> list;
    for (int32_t value : values)
      if (value >= 0 && std::ranges::count(list, value) == 0) list.push_back(value);
    return list;
  }

  void add_op(const autograd::RecordedCall& recorded) {
    const Node& node = recorded.node;
    const Call& call = calls_.back();
    graph_.ops.push_back({.reads = known(call.inputs)});
    replays_.push_back(replay_of(call_of(node), runs_.runs()[call.run]));
    std::vector<int32_t> saved;
    for (int i : recorded.saves.inputs) saved.push_back(call.inputs[static_cast<size_t>(i)]);
    for (int i : recorded.saves.outputs) saved.push_back(call.outputs[static_cast<size_t>(i)]);
    saved_.resize(calls_.size());
    saved_.back() = known(saved);
    // Gradients of leaves are new where there are none of an earlier micro-step.
    new_gradients_.resize(calls_.size());
    new_gradients_.back() = 0;
    for (size_t i = 0; i < node.edges.size(); ++i)
      if (const auto& leaf = node.edges[i].leaf; leaf != nullptr && !leaf->grad.defined())
        new_gradients_.back() += bytes_of(node.inputs[i]);
  }

  // Only now is known all that each run moved: gradients are added up after it.
  void settle_seconds(const SeenRuns& seen, const OpTimes& times) {
    for (size_t k = 0; k < calls_.size(); ++k) {
      graph_.ops[k].seconds = times.seconds(seen.runs[calls_[k].run]);
      graph_.ops[k].replay_seconds = times.seconds(replays_[k]);
    }
    for (size_t j = 0; j < steps_.size(); ++j)
      for (size_t run : steps_[j].runs) graph_.steps[j].seconds += times.seconds(seen.runs[run]);
  }

  // Until which call, or step behind all calls, each value lives when everything is kept.
  std::vector<int64_t> last_reads() const {
    std::vector<int64_t> last(graph_.values.size());
    for (size_t i = 0; i < last.size(); ++i) last[i] = graph_.values[i].producer;
    for (size_t k = 0; k < graph_.ops.size(); ++k)
      for (int32_t value : graph_.ops[k].reads)
        last[static_cast<size_t>(value)] = static_cast<int64_t>(k);
    for (size_t j = 0; j < graph_.steps.size(); ++j)
      for (int32_t value : graph_.steps[j].reads)
        last[static_cast<size_t>(value)] = static_cast<int64_t>(graph_.ops.size() + j);
    return last;
  }

  // The bytes of values at each call and step.
  std::vector<int64_t> value_bytes() const {
    const std::vector<int64_t> last = last_reads();
    std::vector<int64_t> change(graph_.ops.size() + graph_.steps.size() + 1);
    for (size_t i = 0; i < last.size(); ++i) {
      change[static_cast<size_t>(graph_.values[i].producer)] += graph_.values[i].bytes;
      change[static_cast<size_t>(last[i]) + 1] -= graph_.values[i].bytes;
    }
    for (size_t i = 1; i < change.size(); ++i) change[i] += change[i - 1];
    return change;
  }

  // What was live beside values is scratch, and the batch, which is there throughout.
  void settle_forward() {
    const std::vector<int64_t> bytes = value_bytes();
    int64_t least = std::numeric_limits<int64_t>::max();
    for (size_t k = 0; k < calls_.size(); ++k) {
      int64_t& scratch = graph_.ops[k].scratch;
      scratch = std::max<int64_t>(calls_[k].peak - graph_.fixed_bytes - bytes[k], 0);
      least = std::min(least, scratch);
    }
    if (calls_.empty()) return;
    graph_.fixed_bytes += least;
    for (auto& op : graph_.ops) op.replay_scratch = op.scratch -= least;
    for (const auto& [call, bytes_of_input] : overwritten_)
      graph_.ops[static_cast<size_t>(call)].replay_scratch += bytes_of_input;
  }

  void settle_backward() {
    const std::vector<int64_t> bytes = value_bytes();
    std::vector<int64_t> step_of(calls_.size(), -1);
    for (size_t j = 0; j < steps_.size(); ++j)
      step_of[static_cast<size_t>(steps_[j].call)] = static_cast<int64_t>(j);
    const std::vector<int64_t> pending = pending_gradients(step_of);
    int64_t of_leaves = 0;
    for (size_t j = 0; j < steps_.size(); ++j) {
      auto& step = graph_.steps[j];
      step.held =
          std::max<int64_t>(steps_[j].peak - graph_.fixed_bytes - bytes[calls_.size() + j], 0);
      step.held_before = std::min(step.held, pending[j] + of_leaves);
      of_leaves += new_gradients_[static_cast<size_t>(steps_[j].call)];
    }
  }

  // Of values, just before each step: from the first that reads a value to that of its producer.
  std::vector<int64_t> pending_gradients(const std::vector<int64_t>& step_of) const {
    std::vector<int64_t> from(graph_.values.size(), -1), change(steps_.size() + 1);
    for (size_t k = 0; k < calls_.size(); ++k)
      if (step_of[k] >= 0)
        for (int32_t value : graph_.ops[k].reads) {
          int64_t& first = from[static_cast<size_t>(value)];
          first = first < 0 ? step_of[k] : std::min(first, step_of[k]);
        }
    for (size_t i = 0; i < from.size(); ++i) {
      const int64_t to = step_of[static_cast<size_t>(graph_.values[i].producer)];
      if (from[i] < 0 || to < 0 || from[i] >= to) continue;
      change[static_cast<size_t>(from[i]) + 1] += graph_.values[i].bytes;
      if (static_cast<size_t>(to) + 1 < change.size())
        change[static_cast<size_t>(to) + 1] -= graph_.values[i].bytes;
    }
    for (size_t j = 1; j < change.size(); ++j) change[j] += change[j - 1];
    return change;
  }

  OpRuns& runs_;
  std::shared_ptr<memory::Account> account_;
  RecomputeGraph graph_;
  std::vector<Call> calls_;
  std::vector<Step> steps_;
  std::vector<OpRun> replays_;               // of each call
  std::vector<size_t> runs_of_step_;         // since the last one
  std::vector<std::vector<int32_t>> saved_;  // of each call
  std::vector<int64_t> new_gradients_;       // of leaves, of each call
  std::unordered_map<const Node*, int32_t> numbers_;
  std::map<int32_t, int64_t> overwritten_;  // bytes of inputs of a call
  int64_t peak_ = 0;                        // since the last call that was recorded
};

class RecordAll final : public autograd::SavePolicy {
 public:
  explicit RecordAll(Recorder& recorder) : recorder_(recorder) { recorder.begin(); }
  autograd::Decision decide(const autograd::RecordedCall& call) override {
    recorder_.add(call);
    return {};
  }

 private:
  Recorder& recorder_;
};

}  // namespace

RecordedStep record_step(const RehearsalOptions& training) {
  RehearsalOptions one = training;
  one.trainer.steps = one.updates = 1;
  one.effective_batch = training.update_images() > training.batch ? 2 * training.batch : 0;
  one.last_update = one.evaluated = 0;
  OpRuns runs = training.op_times.observer();
  Recorder recorder(runs);
  one.trainer.recompute = {"recorded", [&] { return std::make_unique<RecordAll>(recorder); }};
  measure_on_meta(memory::planner_named("direct"),
                  [&](const auto& state_is_held) { rehearse(one, state_is_held); });
  const SeenRuns seen = runs.take();
  training.op_times.learn(seen);
  return std::move(recorder).take(seen, training.op_times);
}

}  // namespace brim
