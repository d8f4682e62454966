#include "brim/autograd/rebuild.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "brim/autograd/node.h"

namespace brim::autograd {
namespace {

class Rebuilding {
 public:
  Rebuilding(Value& wanted, const char* reader) : wanted_(wanted), reader_(reader) {}

  Tensor run() {
    uses_[&wanted_] = 1;
    find_missing();
    for (const auto& node : nodes_) run_again(*node);
    return std::move(made_.at(&wanted_));
  }

 private:
  // Calls whose results are missing, in the order in which they ran.
  void find_missing() {
    std::unordered_set<const Node*> known;
    std::vector<Value*> open{&wanted_};
    while (!open.empty()) {
      std::shared_ptr<Node> node = producer_of(*open.back());
      open.pop_back();
      if (!known.insert(node.get()).second) continue;
      for (const SavedTensor& input : node->replay_inputs)
        if (Value* value = input.value(); value != nullptr && !value->is_resident()) {
          ++uses_[value];
          if (!value->is_held()) open.push_back(value);  // else it was overwritten: get() says so
        }
      nodes_.push_back(std::move(node));
    }
    std::ranges::sort(nodes_, {}, &Node::sequence);
  }

  std::shared_ptr<Node> producer_of(const Value& value) const {
    std::shared_ptr<Node> node = value.producer();
    expect<AutogradError>(value.can_be_made_again(), reader_,
                          "a saved tensor was dropped, and what made it was freed by an earlier "
                          "backward; ask for retain_graph to go through it twice");
    return node;
  }

  Tensors inputs_of(const Node& node) {
    Tensors inputs;
    for (const SavedTensor& input : node.replay_inputs) {
      Value* value = input.value();
      auto made = made_.find(value);
      inputs.push_back(made != made_.end() ? made->second : input.get(node.op->name()));
    }
    return inputs;
  }

  // Outputs that are at hand, for ops that start from them.
  static Tensors known_outputs(const Node& node) {
    Tensors known(node.outputs.size());
    for (const auto& [i, saved] : node.saved_outputs)
      if (saved.value()->is_resident()) known[static_cast<size_t>(i)] = saved.get(node.op->name());
    return known;
  }

  void run_again(Node& node) {
    ModuleScope module(node.module);
    memory::SiteScope site(node.site(memory::Phase::recompute));
    Tensors outputs;
    {
      const Tensors inputs = inputs_of(node);
      outputs = node.op->forward_again(inputs, known_outputs(node), node.context);
      expect<AutogradError>(outputs.size() == node.outputs.size(), node.op->name(),
                            "run again for backward it gives {} results, where the forward pass "
                            "gave {}",
                            outputs.size(), node.outputs.size());
      notify({*node.op, Phase::recompute, inputs, outputs, node.context, node.where, *node.module,
              &node});
    }
    for (size_t i = 0; i < outputs.size(); ++i) take(node, i, std::move(outputs[i]));
    for (const SavedTensor& input : node.replay_inputs) let_go(input.value());
  }

  void take(const Node& node, size_t i, Tensor output) {
    const std::shared_ptr<Value>& shared = node.values[i];
    Value* value = shared.get();
    if (value == nullptr || value->is_resident()) return;
    expect<AutogradError>(output.defined() || !uses_.contains(value), node.op->name(),
                          "run again for backward it gives no result {}, which the forward pass "
                          "gave",
                          i);
    if (!output.defined()) return;
    const TensorInfo& expected = node.outputs[i];
    expect<AutogradError>(
        output.shape() == expected.shape && output.dtype() == expected.dtype, node.op->name(),
        "run again for backward it gives {} of {}, where the forward pass gave {} of {}",
        to_string(output.shape()), to_string(output.dtype()), to_string(expected.shape),
        to_string(expected.dtype));
    RebuildScope::note(shared);
    value->set(output, wanted_);
    if (uses_.contains(value)) made_[value] = std::move(output);
  }

  void let_go(const Value* value) {
    auto uses = uses_.find(value);
    if (uses != uses_.end() && --uses->second == 0) made_.erase(value);
  }

  Value& wanted_;
  const char* reader_;
  std::vector<std::shared_ptr<Node>> nodes_;
  std::unordered_map<const Value*, int> uses_;  // of missing ones, within this
  std::unordered_map<const Value*, Tensor> made_;
};

thread_local RebuildScope* current = nullptr;

}  // namespace

RebuildScope::RebuildScope() : before_(current) { current = this; }

RebuildScope::~RebuildScope() {
  current = before_;
  for (const std::weak_ptr<Value>& made : made_)
    if (std::shared_ptr<Value> value = made.lock()) value->drop();
}

void RebuildScope::note(const std::shared_ptr<Value>& made) {
  if (current != nullptr) current->made_.push_back(made);
}

Tensor rebuild(Value& wanted, const char* reader) { return Rebuilding(wanted, reader).run(); }

}  // namespace brim::autograd
