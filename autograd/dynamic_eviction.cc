#include "brim/autograd/dynamic_eviction.h"

#include "brim/autograd/eviction_graph.h"
#include "brim/autograd/tournament.h"

namespace brim::autograd {
namespace {

size_t at(int unit) { return static_cast<size_t>(unit); }

}  // namespace

DynamicEviction::DynamicEviction(const DynamicEvictionOptions& options)
    : options_(options),
      graph_(std::make_unique<EvictionGraph>()),
      candidates_(std::make_unique<Tournament>()) {
  expect<ValueError>(options.budget >= 0, "dynamic eviction",
                     "expected a budget of 0 bytes or more, got {}", options.budget);
}

DynamicEviction::~DynamicEviction() = default;

Decision DynamicEviction::decide(const RecordedCall& call) {
  return {.fates = std::vector<Fate>(call.outputs.size(), Fate::retain),
          .held_until_dropped = true};
}

void DynamicEviction::recorded(const std::shared_ptr<Node>& node, const Tensors& outputs) {
  for (const SavedTensor& input : node->replay_inputs) use(input.value());
  const int first = graph_->size();
  graph_->add(*node, outputs);
  last_use_.resize(at(graph_->size()), ops_);
  if (!chooses_) return;
  for (int unit = first; unit < graph_->size(); ++unit) enter(unit);
}

int64_t DynamicEviction::limit() const {
  return options_.budget > 0 ? options_.budget : memory::Source::kUnlimited;
}

void DynamicEviction::ran(const OpEvent& event) {
  ++ops_;
  if (event.node == nullptr) return;
  if (event.phase == Phase::recompute) return ran_again(*event.node);
  for (const auto* saved : {&event.node->saved_inputs, &event.node->saved_outputs})
    for (const auto& [i, tensor] : *saved) use(tensor.value());
  // Unless the graph is retained, nobody wants the results any more.
  for (const auto& value : event.node->values)
    if (const int unit = graph_->unit_of(value.get()); unit != EvictionGraph::kNone)
      graph_->leave_set(unit);
}

void DynamicEviction::ran_again(const Node& node) {
  ++counts_.rerun;
  for (const SavedTensor& input : node.replay_inputs) use(input.value());
  for (const auto& value : node.values) {
    const int unit = graph_->unit_of(value.get());
    if (unit == EvictionGraph::kNone || !value->is_resident()) continue;
    graph_->leave_set(unit);
    last_use_[at(unit)] = ops_;
    if (!chooses_) continue;
    enter(unit);
    for (const auto* around : {&graph_->parents(unit), &graph_->children(unit)})
      for (int other : *around)  // costs less to make again now
        if (candidates_->has(other)) enter(other);
  }
}

void DynamicEviction::use(const Value* value) {
  const int unit = graph_->unit_of(value);
  if (unit == EvictionGraph::kNone) return;
  last_use_[at(unit)] = ops_;
  if (candidates_->has(unit)) candidates_->set(unit, speeds_[at(unit)], ops_);
}

double DynamicEviction::bytes_for_cost(int unit) {
  return static_cast<double>(graph_->bytes(unit)) / graph_->cost(unit);
}

// Or says anew what it is worth.
void DynamicEviction::enter(int unit) {
  if (graph_->bytes(unit) == 0) return;
  speeds_.resize(at(graph_->size()));
  speeds_[at(unit)] = bytes_for_cost(unit);
  candidates_->set(unit, speeds_[at(unit)], last_use_[at(unit)]);
}

void DynamicEviction::begin_choosing() {
  if (chooses_) return;
  chooses_ = true;
  for (int unit = 0; unit < graph_->size(); ++unit) enter(unit);
}

void DynamicEviction::look_again_at_held(const memory::Account& account) {
  std::erase_if(held_, [&](int unit) {
    if (candidates_->has(unit)) return true;  // it was made again
    const EvictionGraph::State state = graph_->state(unit, account);
    if (state == EvictionGraph::State::droppable) enter(unit);
    return state != EvictionGraph::State::needed;
  });
}

// Costs that rose since a candidate was entered are seen when it wins.
int DynamicEviction::choose(const memory::Account& account) {
  while (true) {
    const int unit = candidates_->winner(ops_);
    if (unit == Tournament::kNobody) return EvictionGraph::kNone;
    ++counts_.looked_at;
    const EvictionGraph::State state = graph_->state(unit, account);
    if (state != EvictionGraph::State::droppable) {
      candidates_->remove(unit);
      if (state == EvictionGraph::State::needed) held_.push_back(unit);
    } else if (bytes_for_cost(unit) != speeds_[at(unit)]) {
      enter(unit);
    } else {
      return unit;
    }
  }
}

bool DynamicEviction::reclaim(const memory::Account& account, int64_t bytes) {
  begin_choosing();
  look_again_at_held(account);
  int64_t freed = 0;
  while (freed < bytes) {
    const int unit = choose(account);
    if (unit == EvictionGraph::kNone) break;
    candidates_->remove(unit);
    graph_->drop(unit);
    freed += graph_->bytes(unit);
    ++counts_.dropped;
  }
  counts_.dropped_bytes += freed;
  return freed > 0;
}

EvictionCounts DynamicEviction::counts() const {
  EvictionCounts counts = counts_;
  counts.comparisons = candidates_->comparisons();
  return counts;
}

}  // namespace brim::autograd
