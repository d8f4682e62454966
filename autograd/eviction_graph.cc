#include "brim/autograd/eviction_graph.h"

#include <algorithm>

#include "brim/autograd/reading.h"

namespace brim::autograd {
namespace {

// A processor that moves a byte does some eight operations meanwhile.
constexpr double kFlopsPerByte = 8;
// A value that thousands read would make every question about it long.
constexpr size_t kMostNeighbours = 32;
constexpr int kViewOfOthers = -2;

double cost_of(const Node& node) {
  const auto moved = static_cast<double>(bytes_of(node.inputs) + bytes_of(node.outputs));
  return 1 + std::max(node.op->flops(node.inputs, node.outputs), kFlopsPerByte * moved);
}

void add_once(std::vector<int>& list, int element) {
  if (list.size() < kMostNeighbours && std::ranges::count(list, element) == 0)
    list.push_back(element);
}

}  // namespace

void EvictionGraph::add(const Node& node, const Tensors& outputs) {
  const bool can_run_again = node.replay_inputs.size() == node.inputs.size();
  if (!can_run_again) return;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::shared_ptr<Value>& value = node.values[i];
    if (value == nullptr || value->fate() == Fate::keep) continue;
    int unit = view_of(node, outputs[i]);
    if (unit == kViewOfOthers) continue;
    if (unit == kNone) {
      unit = size();
      units_.push_back({.bytes = outputs[i].storage()->bytes(), .cost = cost_of(node)});
      for (const SavedTensor& input : node.replay_inputs) join(unit, unit_of(input.value()));
    }
    at(unit).values.push_back(value);
    numbers_[value.get()] = unit;
  }
}

// The unit that an output is a view of; `kViewOfOthers` for one of a tensor that is none.
int EvictionGraph::view_of(const Node& node, const Tensor& output) const {
  for (const SavedTensor& input : node.replay_inputs) {
    if (input.value() == nullptr || !input.value()->is_of(output)) continue;
    const int unit = unit_of(input.value());
    return unit == kNone ? kViewOfOthers : unit;
  }
  return kNone;
}

void EvictionGraph::join(int unit, int other) {
  if (other == kNone) return;
  add_once(at(unit).parents, other);
  add_once(at(other).children, unit);
}

int EvictionGraph::unit_of(const Value* value) const {
  auto found = numbers_.find(value);
  return found == numbers_.end() ? kNone : found->second;
}

EvictionGraph::State EvictionGraph::state(int unit, const memory::Account& account) const {
  const Storage* storage = nullptr;
  int holds = 0;
  bool is_resident = false, is_needed = false;
  for (const std::weak_ptr<Value>& weak : at(unit).values) {
    const std::shared_ptr<Value> value = weak.lock();
    if (value == nullptr) continue;
    const bool is_there = value->is_resident();  // not so where it was written over: it says so
    is_resident |= is_there;
    const Storage* held = value->held_storage().get();
    if (held == nullptr) continue;
    is_needed |= !is_there || !value->is_droppable() || ReadingScope::reads(*value) ||
                 (storage != nullptr && storage != held);
    storage = held;
    ++holds;
  }
  if (storage == nullptr) return is_resident ? State::needed : State::gone;
  is_needed |=
      storage->handles() > 0 || storage->tape_holds() > holds || &storage->account() != &account;
  return is_needed ? State::needed : State::droppable;
}

// What nobody held for backward went without a word.
bool EvictionGraph::is_missing(int unit) const {
  if (at(unit).set != kNone) return true;
  bool can_be_made_again = false;
  for (const std::weak_ptr<Value>& weak : at(unit).values)
    if (const std::shared_ptr<Value> value = weak.lock()) {
      if (value->is_resident()) return false;
      can_be_made_again |= value->can_be_made_again();
    }
  return can_be_made_again;
}

bool EvictionGraph::is_wanted(int unit) const {
  return at(unit).is_needed || std::ranges::any_of(at(unit).values, [](const auto& weak) {
           const std::shared_ptr<Value> value = weak.lock();
           return value != nullptr && value->is_wanted();
         });
}

template <class Visit>
void EvictionGraph::for_each_missing(int unit, const Visit& visit) const {
  for (int parent : at(unit).parents)
    if (is_missing(parent)) visit(parent);
  for (int child : at(unit).children)
    if (is_missing(child) && is_wanted(child)) visit(child);
}

int EvictionGraph::root_of(int set) {
  auto parent = [this](int i) -> int& { return sets_[static_cast<size_t>(i)].parent; };
  while (parent(set) != set) set = parent(set) = parent(parent(set));
  return set;
}

void EvictionGraph::unite(int a, int b) {
  a = root_of(a);
  b = root_of(b);
  if (a == b) return;
  sets_[static_cast<size_t>(b)].parent = a;
  sets_[static_cast<size_t>(a)].cost += sets_[static_cast<size_t>(b)].cost;
}

// A missing unit gets its set, and so do the missing ones around it.
void EvictionGraph::settle(int unit) {
  open_.assign(1, unit);
  while (!open_.empty()) {
    const int next = open_.back();
    open_.pop_back();
    if (at(next).set != kNone) continue;
    const int set = at(next).set = static_cast<int>(sets_.size());
    sets_.push_back({.parent = set, .cost = at(next).cost});
    for_each_missing(next, [&](int other) {
      if (at(other).set != kNone)
        unite(at(other).set, set);
      else
        open_.push_back(other);
    });
  }
}

// What is missing above it will be made for its sake.
void EvictionGraph::need_parents(int unit) {
  open_.assign(1, unit);
  while (!open_.empty()) {
    const int next = open_.back();
    open_.pop_back();
    for (int parent : at(next).parents)
      if (!at(parent).is_needed && is_missing(parent)) {
        at(parent).is_needed = true;
        open_.push_back(parent);
      }
  }
}

double EvictionGraph::cost(int unit) {
  double cost = at(unit).cost;
  roots_.clear();
  for_each_missing(unit, [&](int other) {
    settle(other);
    const int root = root_of(at(other).set);
    if (std::ranges::count(roots_, root) > 0) return;
    roots_.push_back(root);
    cost += sets_[static_cast<size_t>(root)].cost;
  });
  return cost;
}

void EvictionGraph::drop(int unit) {
  for (const std::weak_ptr<Value>& weak : at(unit).values)
    if (const std::shared_ptr<Value> value = weak.lock()) value->drop();
  settle(unit);
  need_parents(unit);
}

void EvictionGraph::leave_set(int unit) {
  at(unit).is_needed = false;
  int& set = at(unit).set;
  if (set == kNone) return;
  double& cost = sets_[static_cast<size_t>(root_of(set))].cost;
  cost = std::max(cost - at(unit).cost, 0.0);
  set = kNone;
}

}  // namespace brim::autograd
