// A step read off a rehearsal by a policy that keeps everything.
#include "brim/train/recorded_step.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "brim/autograd/node.h"
#include "brim/base/bytes.h"
#include "brim/core/row_view.h"
#include "brim/memory/host_memory.h"
#include "brim/train/op_runs.h"
#include "brim/train/recorded_calls.h"
#include "brim/train/rehearsed_plan.h"

namespace brim {
namespace {

using autograd::is_made_again;
using autograd::Node;
using memory::Fate;

constexpr int64_t kLeastWorth = 4096;  // bytes; smaller values are statistics and losses
// A copy of less takes longer to begin than to run.
constexpr int64_t kLeastOffloaded = 1 << 16;

size_t at(int64_t i) { return static_cast<size_t>(i); }

int64_t bytes_of(const autograd::TensorInfo& info) {
  return ceil_div(info.bytes(), memory::kAlignment) * memory::kAlignment;
}

/// Of all rows of a result, one piece after another.
struct RowRuns {
  OpRun run;  ///< all of them, but for the start of each piece after the first
  int64_t pieces = 1;
};

class Recorder final : public autograd::OpObserver {
 public:
  explicit Recorder(OpRuns& runs) : runs_(runs) {}

  void begin() {
    recorded_ = {};
    numbers_.clear();
    runs_of_calls_.clear();
    replays_.clear();
    rows_.clear();
    row_groups_.clear();
    runs_of_steps_.clear();
    runs_of_step_.clear();
    account_ = memory::account(Device::meta());
    account_->reset_peak();
    recorded_.fixed_bytes = account_->stats().live;
  }

  void ran(const autograd::OpEvent& event) override {
    if (account_ == nullptr) return;
    peak_ = std::max(peak_, account_->stats().peak_live);
    account_->reset_peak();
    if (event.phase == autograd::Phase::forward) return;
    runs_of_step_.push_back(runs_.current());
    auto call = numbers_.find(event.node);
    if (event.phase != autograd::Phase::backward || call == numbers_.end())
      return;                 // of a checkpoint within: a part of what comes next
    if (event.factored >= 0)  // nobody makes it
      recorded_.calls[static_cast<size_t>(call->second)].new_gradients -=
          bytes_of(event.node->inputs[static_cast<size_t>(event.factored)]);
    recorded_.steps.push_back({.call = call->second, .peak = std::exchange(peak_, 0)});
    runs_of_steps_.push_back(std::exchange(runs_of_step_, {}));
  }

  void add(const autograd::RecordedCall& made) {
    const Node& node = made.node;
    const auto number = static_cast<int32_t>(recorded_.calls.size());
    RecordedCalls::Call call{.peak = std::exchange(peak_, 0), .new_gradients = new_gradients(node)};
    runs_of_calls_.push_back(runs_.current());
    replays_.push_back(replay_of(call_of(node), runs_.runs()[runs_.current()]));
    rows_.push_back(replay_by_rows(replays_.back(), node.outputs.front()));
    for (const auto& value : made.inputs) call.inputs.push_back(number_of(value.get()));
    call.has_rows =
        node.op->is_rowwise() && !node.op->is_random() && node.outputs.front().shape.size() >= 2 &&
        std::ranges::none_of(made.inputs, [&](const auto& value) { return is_view(value.get()); });
    for (size_t i = 0; i < made.outputs.size(); ++i)
      call.outputs.push_back(add_output(made, call, number, i));
    add_saved(made, call);
    numbers_[&node] = number;
    recorded_.calls.push_back(std::move(call));
  }

  RecordedStep take(const SeenRuns& seen, const OpTimes& times) && {
    settle_seconds(seen, times);
    RecordedStep step{graph_of(recorded_), {}, {}};
    for (const auto& value : recorded_.values) step.makers.push_back(value.makers.back());
    for (RecordedCalls::Call& call : recorded_.calls)
      step.values.push_back(std::move(call.outputs));
    return step;
  }

 private:
  int32_t number_of(const autograd::Value* value) const {
    if (value == nullptr) return -1;
    std::shared_ptr<Node> producer = value->producer();
    if (producer == nullptr) return -1;
    auto found = numbers_.find(producer.get());
    if (found == numbers_.end()) return -1;
    return recorded_.calls[at(found->second)].outputs[at(value->output())];
  }

  int32_t add_output(const autograd::RecordedCall& made, RecordedCalls::Call& call, int32_t number,
                     size_t i) {
    const Tensor& output = made.outputs[i];
    if (!output.defined()) return -1;
    const autograd::Op& op = *made.node.op;
    for (size_t k = 0; k < made.inputs.size(); ++k)
      if (made.inputs[k] != nullptr && made.inputs[k]->is_of(output)) return call.inputs[k];
    if (i == 0 && made.overwritten >= 0 && call.inputs[at(made.overwritten)] >= 0) {
      call.overwritten = call.inputs[at(made.overwritten)];
      RecordedCalls::Value& value = recorded_.values[at(call.overwritten)];
      value.makers.push_back(number);
      value.is_one_pass &= op.is_one_pass();
      if (row_group(call, made.node.outputs[i]) != value.row_group) value.row_group = -1;
      return call.overwritten;
    }
    const int64_t bytes = bytes_of(made.node.outputs[i]);
    const bool is_anchor = std::ranges::count(op.anchors(), static_cast<int>(i)) > 0;
    recorded_.values.push_back({.bytes = bytes,
                                .makers = {number},
                                .may_drop = bytes >= kLeastWorth && !is_anchor,
                                .may_offload = bytes >= kLeastOffloaded && !is_anchor,
                                .is_one_pass = op.is_one_pass(),
                                .row_group = i == 0 ? row_group(call, made.node.outputs[i]) : -1});
    return static_cast<int32_t>(recorded_.values.size()) - 1;
  }

  // Of a value that is a view of its storage's: where that was dropped, the view is made of it
  // anew.
  bool is_view(const autograd::Value* value) const {
    const int32_t number = number_of(value);
    return number >= 0 && std::ranges::count(recorded_.values[at(number)].makers,
                                             numbers_.at(value->producer().get())) == 0;
  }

  // What has as many rows, and dimensions.
  int32_t row_group(const RecordedCalls::Call& call, const autograd::TensorInfo& output) {
    if (!call.has_rows) return -1;
    const auto key = std::pair(output.shape.size(), output.shape[0]);
    return row_groups_.try_emplace(key, static_cast<int32_t>(row_groups_.size())).first->second;
  }

  void add_saved(const autograd::RecordedCall& made, RecordedCalls::Call& call) const {
    const Node& node = made.node;
    std::set<int32_t> whole;
    auto add = [&](int32_t value, bool does_without, std::vector<int32_t>& without) {
      if (value < 0) return;
      if (std::ranges::count(call.saved, value) == 0) call.saved.push_back(value);
      if (does_without)
        without.push_back(value);
      else
        whole.insert(value);
    };
    for (int i : made.saves.inputs)
      add(call.inputs[at(i)],
          node.op->reads_rows(i, node.inputs, node.outputs) && !is_view(made.inputs[at(i)].get()),
          call.by_rows);
    for (int i : made.saves.outputs)
      add(call.outputs[at(i)], node.op->derives_output(i), call.derived);
    for (auto* list : {&call.by_rows, &call.derived})
      std::erase_if(*list, [&](int32_t value) { return whole.contains(value); });
  }

  // Rows of a result that stay in the caches: see `OpRuns::ran`. Times that were measured are those
  // of the whole.
  static RowRuns replay_by_rows(const OpRun& whole, const autograd::TensorInfo& output) {
    const int64_t bytes = output.bytes();
    RowRuns rows{whole, std::max<int64_t>(ceil_div(bytes, kBytesOfRows), 1)};
    rows.run.bytes_moved = std::max<int64_t>(whole.bytes_moved - 2 * bytes, 0);
    return rows;
  }

  // Only now is known all that each run moved: gradients are added up after it.
  void settle_seconds(const SeenRuns& seen, const OpTimes& times) {
    const double start = times.seconds(OpRun{});
    for (size_t c = 0; c < recorded_.calls.size(); ++c) {
      recorded_.calls[c].seconds = times.seconds(seen.runs[runs_of_calls_[c]]);
      recorded_.calls[c].replay_seconds = times.seconds(replays_[c]);
      recorded_.calls[c].row_seconds =
          times.seconds(rows_[c].run) + static_cast<double>(rows_[c].pieces - 1) * start;
    }
    for (size_t j = 0; j < recorded_.steps.size(); ++j)
      for (size_t run : runs_of_steps_[j])
        recorded_.steps[j].seconds += times.seconds(seen.runs[run]);
  }

  // Of leaves that have no gradient of an earlier micro-step.
  static int64_t new_gradients(const Node& node) {
    int64_t bytes = 0;
    for (size_t i = 0; i < node.edges.size(); ++i)
      if (const auto& leaf = node.edges[i].leaf; leaf != nullptr && !leaf->grad.defined())
        bytes += bytes_of(node.inputs[i]);
    return bytes;
  }

  OpRuns& runs_;
  std::shared_ptr<memory::Account> account_;
  RecordedCalls recorded_;
  std::unordered_map<const Node*, int32_t> numbers_;
  std::vector<size_t> runs_of_calls_;  // numbers of their `OpRun`s
  std::vector<OpRun> replays_;         // of each call
  std::vector<RowRuns> rows_;          // the same where rows of the result are enough
  std::map<std::pair<size_t, int64_t>, int32_t> row_groups_;  // dimensions and rows
  std::vector<std::vector<size_t>> runs_of_steps_;  // last their own; those of a checkpoint before
  std::vector<size_t> runs_of_step_;                // since the last one
  int64_t peak_ = 0;                                // since the last call that was recorded
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

// What nothing reads in backward, nor makes again what is read there, is held by nobody when it is
// kept; where it were dropped, its call would hold what it takes to run again.
std::vector<Fate> without_idle(const memory::RecomputeGraph& graph, std::vector<Fate> saving) {
  std::vector<bool> is_wanted(saving.size());
  for (const auto& backward : graph.steps)
    for (int32_t value : backward.reads) is_wanted[at(value)] = true;
  for (size_t i = 0; i < saving.size(); ++i)
    if (saving[i] == Fate::offload && !is_wanted[i]) saving[i] = Fate::keep;
  std::vector<std::vector<size_t>> made(graph.ops.size());
  for (size_t i = 0; i < saving.size(); ++i) made[at(graph.values[i].producer)].push_back(i);
  for (size_t k = graph.ops.size(); k-- > 0;)
    if (std::ranges::any_of(made[k],
                            [&](size_t i) { return is_wanted[i] && is_made_again(saving[i]); }))
      for (int32_t value : graph.ops[k].reads) is_wanted[at(value)] = true;
  for (size_t i = 0; i < saving.size(); ++i)
    if (!is_wanted[i]) saving[i] = Fate::keep;
  return saving;
}

}  // namespace

RecordedStep record_step(const RehearsalOptions& training) {
  RehearsalOptions one =
      training.one_update(training.update_images() > training.batch ? 2 * training.batch : 0);
  OpRuns runs = training.op_times.observer();
  Recorder recorder(runs);
  one.trainer.recompute = {"recorded", [&] { return std::make_unique<RecordAll>(recorder); }};
  measure_on_meta(memory::planner_named("direct"),
                  [&](const auto& state_is_held) { rehearse(one, state_is_held); });
  const SeenRuns seen = runs.take();
  training.op_times.learn(seen);
  RecordedStep step = std::move(recorder).take(seen, training.op_times);
  if (const OffloadOptions& offload = training.trainer.offload; offload.enabled) {
    step.graph.host_bytes_per_second = training.op_times.speed.host_bytes_per_second;
    step.graph.host_bytes = offload.host_bytes > 0 ? offload.host_bytes : memory::host_memory();
  }
  return step;
}

autograd::Fates fates_of(const RecordedStep& step, const std::vector<Fate>& given) {
  const std::vector<Fate> saving = without_idle(step.graph, given);
  autograd::Fates fates;
  for (const std::vector<int32_t>& outputs : step.values) {
    // What is written over is not there to be copied.
    const auto fate_of = [&](int32_t value) {
      if (value < 0) return Fate::keep;
      const bool is_last = step.makers[at(value)] <= std::ssize(fates);
      return saving[at(value)] == Fate::offload && !is_last ? Fate::keep : saving[at(value)];
    };
    std::vector<Fate> of_call;
    for (int32_t value : outputs) of_call.push_back(fate_of(value));
    if (std::ranges::count(of_call, Fate::keep) == std::ssize(of_call)) of_call.clear();
    fates.push_back(std::move(of_call));
  }
  return fates;
}

}  // namespace brim
