#include "brim/autograd/save.h"

#include <algorithm>

#include "brim/autograd/offload.h"

namespace brim::autograd {
namespace {

using Values = std::vector<std::shared_ptr<Value>>;

// What was made in a segment is dropped within it, and held for who reads it outside. What was
// written over is gone.
SavedTensor reader_of(std::shared_ptr<Value> value, const Segment& segment, bool in_backward) {
  if (value == nullptr) return {};
  const bool drops =
      !value->is_resident() || (is_made_again(value->fate()) && value->segment().id == segment.id);
  return SavedTensor(std::move(value), {.holds = !drops, .in_backward = in_backward});
}

SavedTensor holder_of(std::shared_ptr<Value> value) {
  return SavedTensor(std::move(value), {.holds = true, .in_backward = true});
}

bool can_start_from(const Value& overwritten, const Decision& decision) {
  return overwritten.can_be_made_again() && overwritten.segment().id == decision.segment.id;
}

bool runs_again(const Decision& decision) {
  return std::ranges::any_of(decision.fates, is_made_again);
}

/// The same, but that nothing is made again.
Decision without_replay(Decision decision) {
  if (std::ranges::count(decision.fates, Fate::offload) == 0) return {};
  std::ranges::replace_if(decision.fates, is_made_again, Fate::keep);
  return {.fates = std::move(decision.fates)};
}

void make_values(const std::shared_ptr<Node>& node, const Tensors& outputs, Decision decision) {
  check(decision.fates.size() == outputs.size(), "a policy decides on each output");
  for (int anchor : node->op->anchors()) decision.fates[static_cast<size_t>(anchor)] = Fate::keep;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].defined())
      node->values[i] = std::make_shared<Value>(outputs[i], node, static_cast<int>(i),
                                                decision.fates[i], decision.segment);
  if (!decision.held_until_dropped) return;
  for (const auto& value : node->values)
    if (value != nullptr && value->fate() != Fate::keep) value->hold_until_dropped();
}

void watch(const Values& values) {
  Offload* engine = offload();
  if (engine == nullptr) return;
  for (const auto& value : values)
    if (value != nullptr && value->fate() == Fate::offload) engine->watch(value);
}

}  // namespace

void save(const std::shared_ptr<Node>& node, const Tensors& inputs, const Tensors& outputs,
          const Saves& saves, int overwritten) {
  SavePolicy* policy = save_policy();
  Values values(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (policy != nullptr || std::ranges::count(saves.inputs, static_cast<int>(i)) > 0)
      values[i] =
          static_cast<int>(i) == overwritten ? value_before(inputs[i]) : value_of(inputs[i]);
  Decision decision =
      policy != nullptr ? policy->decide({*node, outputs, values, saves, overwritten}) : Decision();
  // Its place is taken: unless it can be made again, the result is kept instead of it.
  if (overwritten >= 0 && runs_again(decision) &&
      !can_start_from(*values[static_cast<size_t>(overwritten)], decision))
    decision = without_replay(std::move(decision));
  const Segment segment = decision.segment;
  if (runs_again(decision))
    for (const auto& value : values)
      node->replay_inputs.push_back(reader_of(value, segment, /*in_backward=*/false));
  if (!decision.fates.empty()) make_values(node, outputs, std::move(decision));
  for (int i : saves.inputs) {
    std::shared_ptr<Value>& value = values[static_cast<size_t>(i)];
    const bool stays = policy != nullptr && value != nullptr && policy->keeps_for(*node, i);
    node->saved_inputs.emplace_back(i, stays ? holder_of(value) : reader_of(value, segment, true));
  }
  for (int i : saves.outputs) {
    std::shared_ptr<Value>& value = node->values[static_cast<size_t>(i)];
    const Tensor& output = outputs[static_cast<size_t>(i)];
    if (value == nullptr && output.defined())
      value = std::make_shared<Value>(output, node, i, Fate::keep, Segment{});
    node->saved_outputs.emplace_back(i, reader_of(value, segment, true));
  }
  watch(values);
  watch(node->values);
  if (policy != nullptr) policy->recorded(node, outputs);
}

}  // namespace brim::autograd
