#include "brim/autograd/node.h"

#include <algorithm>
#include <iterator>

#include "brim/autograd/rebuild.h"

namespace brim::autograd {
namespace {

// Edges whose nodes are let go later: a node's destructor moves its edges here instead of
// destroying its producers inside itself.
thread_local std::vector<std::shared_ptr<Node>>* waiting = nullptr;

void take_nodes(std::vector<Edge>& edges, std::vector<std::shared_ptr<Node>>& list) {
  for (Edge& edge : edges)
    if (edge.node) list.push_back(std::move(edge.node));
}

void destroy_iteratively(std::vector<Edge>& edges) {
  if (waiting != nullptr) return take_nodes(edges, *waiting);
  std::vector<std::shared_ptr<Node>> list;
  take_nodes(edges, list);
  waiting = &list;
  while (!list.empty()) {
    std::shared_ptr<Node> node = std::move(list.back());
    list.pop_back();
    node.reset();  // pushes its own producers, if this was the last edge to it
  }
  waiting = nullptr;
}

}  // namespace

Node::~Node() { destroy_iteratively(edges); }

memory::Site Node::site(memory::Phase phase) const {
  return {.op = op->name(),
          .module = module,
          .file = where.file_name(),
          .line = where.line(),
          .phase = phase};
}

bool Node::remakes_rows(int i, const Value& value) const {
  return !value.is_resident() && op->reads_rows(i, inputs, outputs) && can_rebuild_rows(value);
}

bool Node::derives_output(int i, const Value& value) const {
  return !value.is_resident() && op->derives_output(i) && replay_inputs.size() == inputs.size();
}

namespace {

bool is_missing(const SavedTensor& tensor) {
  return tensor.value() != nullptr && !tensor.value()->is_resident();
}

/// Adds what is missing; where it was overwritten instead of dropped, that is said.
void add_missing(const SavedTensor& tensor, const Op& op, std::vector<Value*>& list) {
  if (!is_missing(tensor)) return;
  if (tensor.value()->is_held()) tensor.get(op.name());
  list.push_back(tensor.value());
}

}  // namespace

// What is to be made is settled before the first is. The tape holds what was saved from then on,
// since this node reads it, but not what an output is derived from.
Tensors Node::make_saved_resident() {
  std::vector<Value*> saved, sources;
  for (const auto& [i, tensor] : saved_inputs)
    if (is_missing(tensor) && !remakes_rows(i, *tensor.value())) add_missing(tensor, *op, saved);
  for (const auto& [i, tensor] : saved_outputs) {
    if (!is_missing(tensor)) continue;
    if (derives_output(i, *tensor.value()))
      for (const SavedTensor& input : replay_inputs) add_missing(input, *op, sources);
    else
      add_missing(tensor, *op, saved);
  }
  std::erase_if(sources, [&](Value* value) { return std::ranges::count(saved, value) > 0; });
  std::vector<Value*> wanted = sources;
  wanted.insert(wanted.end(), saved.begin(), saved.end());
  Tensors made = rebuild_together(wanted, op->name());
  made.resize(sources.size());
  return made;
}

void Node::release_saved() {
  // What saved nothing has lost nothing: another backward may come through it, from another loss.
  if (!saved_inputs.empty() || !saved_outputs.empty()) released = true;
  std::deque<SavedTensor> readers;
  for (auto* saved : {&saved_inputs, &saved_outputs}) {
    for (auto& [i, reader] : *saved) readers.push_back(std::move(reader));
    saved->clear();
  }
  if (is_unread()) {  // else a reader is left that may want it made again
    std::ranges::move(replay_inputs, std::back_inserter(readers));
    replay_inputs.clear();
  }
  hooks.clear();  // one may have captured its own tensor, which holds this node
  release(std::move(readers));
}

void Node::release(std::deque<SavedTensor> readers) {
  for (; !readers.empty(); readers.pop_front()) {
    const Value* value = readers.front().value();
    std::shared_ptr<Node> producer = value != nullptr ? value->producer() : nullptr;
    readers.front() = SavedTensor();
    if (producer == nullptr || !producer->is_unread()) continue;
    std::ranges::move(producer->replay_inputs, std::back_inserter(readers));
    producer->replay_inputs.clear();
  }
}

bool Node::is_unread() const {
  return std::ranges::all_of(
      values, [](const auto& value) { return value == nullptr || value->is_unread(); });
}

std::shared_ptr<Node> producer_of(const Tensor& tensor) {
  return std::static_pointer_cast<Node>(tensor.body()->producer);
}

namespace {

/// The producer's, which has one then.
std::shared_ptr<Value>& value_at_producer(const Tensor& tensor) {
  std::shared_ptr<Node> producer = producer_of(tensor);
  const int output = tensor.body()->output;
  std::shared_ptr<Value>& value = producer->values[static_cast<size_t>(output)];
  if (value == nullptr)
    value = std::make_shared<Value>(tensor, producer, output, Fate::keep, Segment{});
  return value;
}

}  // namespace

std::shared_ptr<Value> value_of(const Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  if (producer_of(tensor) == nullptr) return std::make_shared<Value>(tensor);
  const std::shared_ptr<Value>& value = value_at_producer(tensor);
  return value->is_of(tensor) ? value : std::make_shared<Value>(tensor);
}

std::shared_ptr<Value> value_before(const Tensor& tensor) {
  check(producer_of(tensor) != nullptr, "what is overwritten can be made again");
  const std::shared_ptr<Value>& value = value_at_producer(tensor);
  value->forget_storage();
  return value;
}

}  // namespace brim::autograd
