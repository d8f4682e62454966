#include "brim/autograd/rebuild.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "brim/autograd/in_place.h"
#include "brim/autograd/node.h"
#include "brim/core/row_view.h"

namespace brim::autograd {
namespace {

bool has_rows_of(const Shape& shape, const Shape& other) {
  return shape.size() == other.size() && shape[0] == other[0];
}

const Shape& shape_of(const Value& value) {
  return value.producer()->outputs[static_cast<size_t>(value.output())].shape;
}

class Rebuilding {
 public:
  /// All of them, or some rows. They are at the same depth of segments.
  Rebuilding(std::span<Value* const> wanted, const char* reader, std::optional<RowRange> rows = {})
      : wanted_(wanted), reader_(reader), rows_(rows) {}

  /// Of each of them.
  Tensors run() {
    for (const Value* value : wanted_) ++uses_[value];  // until all are made
    find_missing();
    for (const auto& node : nodes_) run_again(*node);
    Tensors made;
    for (const Value* value : wanted_) made.push_back(made_.at(value));
    return made;
  }

 private:
  // Calls whose results are missing, in the order in which they ran.
  void find_missing() {
    std::unordered_set<const Node*> known;
    std::vector<Value*> open(wanted_.begin(), wanted_.end());
    while (!open.empty()) {
      std::shared_ptr<Node> node = producer_of(*open.back());
      open.pop_back();
      if (!known.insert(node.get()).second) continue;
      for (const SavedTensor& input : node->replay_inputs)
        if (Value* value = input.value(); value != nullptr) find_missing(*value, open);
      nodes_.push_back(std::move(node));
    }
    std::ranges::sort(nodes_, {}, &Node::sequence);
  }

  void find_missing(Value& input, std::vector<Value*>& open) {
    if (!input.is_resident()) {
      ++uses_[&input];
      if (!input.is_held()) open.push_back(&input);  // else it was overwritten: get() says so
    } else if (!rows_ && input.is_droppable()) {     // who wants rows holds what they are made from
      ++uses_[&input];                               // nobody may drop it before it is read
      made_.try_emplace(&input, input.get(reader_));
    }
  }

  std::shared_ptr<Node> producer_of(const Value& value) const {
    std::shared_ptr<Node> node = value.producer();
    expect<AutogradError>(value.can_be_made_again(), reader_,
                          "a saved tensor was dropped, and what made it was freed by an earlier "
                          "backward; ask for retain_graph to go through it twice");
    return node;
  }

  // What was made for this call alone is handed over.
  Tensors inputs_of(const Node& node) {
    Tensors inputs;
    for (const SavedTensor& input : node.replay_inputs) {
      Value* value = input.value();
      auto made = made_.find(value);
      if (made == made_.end())
        inputs.push_back(part_of(input.get(node.op->name()), node));
      else
        inputs.push_back(uses_[value] == 1 ? std::move(made->second) : made->second);
    }
    return inputs;
  }

  Tensor part_of(Tensor input, const Node& node) const {
    if (!rows_ || !input.defined() || !has_rows_of(input.shape(), node.outputs.front().shape))
      return input;
    return row_view(input, rows_->begin, rows_->end);
  }

  // Outputs that are at hand, for ops that start from them.
  Tensors known_outputs(const Node& node) const {
    Tensors known(node.outputs.size());
    for (const auto& [i, saved] : node.saved_outputs)
      if (saved.value() != nullptr && saved.value()->is_resident())
        known[static_cast<size_t>(i)] = part_of(saved.get(node.op->name()), node);
    return known;
  }

  void run_again(Node& node) {
    ModuleScope module(node.module);
    memory::SiteScope site(node.site(memory::Phase::recompute));
    Tensors outputs;
    {
      const Tensors inputs = inputs_of(node);
      ForwardContext context = node.context;
      if (in_place_enabled()) context.overwrite = input_to_overwrite_again(*node.op, inputs);
      outputs = node.op->forward_again(inputs, known_outputs(node), context);
      expect<AutogradError>(outputs.size() == node.outputs.size(), node.op->name(),
                            "run again for backward it gives {} results, where the forward pass "
                            "gave {}",
                            outputs.size(), node.outputs.size());
      const int overwritten = input_overwritten(context, inputs, outputs);
      if (overwritten >= 0)
        node.replay_inputs[static_cast<size_t>(overwritten)].value()->forget_storage();
      for (size_t i = 0; i < outputs.size(); ++i) take(node, i, outputs[i]);
      notify({*node.op, Phase::recompute, inputs, outputs, node.context, node.where, *node.module,
              &node, overwritten});
    }
    for (const SavedTensor& input : node.replay_inputs) let_go(input.value());
  }

  void take(const Node& node, size_t i, const Tensor& output) {
    const std::shared_ptr<Value>& shared = node.values[i];
    Value* value = shared.get();
    if (value == nullptr || value->is_resident() || (rows_ && i > 0)) return;
    expect<AutogradError>(output.defined() || !uses_.contains(value), node.op->name(),
                          "run again for backward it gives no result {}, which the forward pass "
                          "gave",
                          i);
    if (!output.defined()) return;
    TensorInfo expected = node.outputs[i];
    if (rows_) expected.shape[0] = rows_->end - rows_->begin;
    expect<AutogradError>(
        output.shape() == expected.shape && output.dtype() == expected.dtype, node.op->name(),
        "run again for backward it gives {} of {}, where the forward pass gave {} of {}",
        output.shape(), output.dtype(), expected.shape, expected.dtype);
    if (!rows_) {
      RebuildScope::note(shared);
      value->set(output, is_wanted(value), wanted_.front()->segment().depth);
    }
    if (uses_.contains(value)) made_[value] = output;
  }

  bool is_wanted(const Value* value) const {
    return std::ranges::find(wanted_, value) != wanted_.end();
  }

  void let_go(const Value* value) {
    auto uses = uses_.find(value);
    if (uses != uses_.end() && --uses->second == 0) made_.erase(value);
  }

  std::span<Value* const> wanted_;
  const char* reader_;
  std::optional<RowRange> rows_;
  std::vector<std::shared_ptr<Node>> nodes_;
  std::unordered_map<const Value*, int> uses_;  // of missing and droppable ones, within this
  std::unordered_map<const Value*, Tensor> made_;
};

// Does its producer make some rows of `value` as it makes those of `like`?
bool is_made_by_rows(const Value& value, const Shape& like) {
  if (!value.can_be_made_again() || value.output() != 0) return false;
  const std::shared_ptr<Node> node = value.producer();
  if (!node->op->is_rowwise() || node->op->is_random()) return false;
  if (like.size() < 2 || !has_rows_of(shape_of(value), like)) return false;
  return std::ranges::all_of(node->op->anchors(), [&](int anchor) {
    const auto& known = node->values[static_cast<size_t>(anchor)];
    return known != nullptr && known->is_resident();
  });
}

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

Tensor rebuild(Value& wanted, const char* reader) {
  Value* const one[] = {&wanted};
  return Rebuilding(one, reader).run().front();
}

Tensors rebuild_together(const std::vector<Value*>& wanted, const char* reader) {
  // Of outer segments first: what inner ones make on the way is let go.
  std::map<int, std::vector<size_t>> by_depth;
  for (size_t i = 0; i < wanted.size(); ++i) by_depth[wanted[i]->segment().depth].push_back(i);
  Tensors all(wanted.size());
  for (const auto& [depth, numbers] : by_depth) {
    std::vector<Value*> missing;
    for (size_t i : numbers)
      if (!wanted[i]->is_resident()) missing.push_back(wanted[i]);
    const Tensors made = missing.empty() ? Tensors() : Rebuilding(missing, reader).run();
    for (size_t i : numbers) all[i] = wanted[i]->get(reader);
  }
  return all;
}

namespace {

/// Where rows of a value come from.
struct RowOrigins {
  bool are_there = true;
  std::vector<std::pair<Value*, const char*>> sources;  // and who reads them
};

RowOrigins origins_of_rows(const Value& wanted) {
  if (!is_made_by_rows(wanted, shape_of(wanted))) return {.are_there = false};
  RowOrigins origins;
  std::unordered_set<const Value*> known{&wanted};
  std::vector<const Value*> open{&wanted};
  while (!open.empty()) {
    const std::shared_ptr<Node> node = open.back()->producer();
    open.pop_back();
    for (const SavedTensor& input : node->replay_inputs) {
      Value* source = input.value();
      if (source == nullptr || !known.insert(source).second) continue;
      const bool stays = source->is_resident() || source->is_held() || source->is_retained();
      const bool has_rows = is_made_by_rows(*source, shape_of(wanted));
      // To make it again, and once more for the next who wants all of it, would be twice.
      if (!stays && !has_rows && wanted.is_retained()) return {.are_there = false};
      if (stays || !has_rows)
        origins.sources.emplace_back(source, node->op->name());
      else
        open.push_back(source);
    }
  }
  return origins;
}

}  // namespace

bool can_rebuild_rows(const Value& wanted) { return origins_of_rows(wanted).are_there; }

std::vector<Tensor> sources_of_rows(const Value& wanted) {
  std::vector<Tensor> tensors;
  for (const auto& [source, reader] : origins_of_rows(wanted).sources) {
    const bool was_there = source->is_resident();
    tensors.push_back(source->get(reader));
    if (!was_there && !source->is_retained()) source->drop();  // it is there for these rows alone
  }
  return tensors;
}

Tensor rebuild_rows(Value& wanted, RowRange rows, const char* reader) {
  Value* const one[] = {&wanted};
  return Rebuilding(one, reader, rows).run().front();
}

}  // namespace brim::autograd
