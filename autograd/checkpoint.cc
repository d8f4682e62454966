#include "brim/autograd/checkpoint.h"

#include "brim/autograd/node.h"
#include "brim/autograd/segments.h"

namespace brim::autograd {
namespace {

thread_local Segment current;

Segment inside(const Segment& outer) {
  return {.id = outer.id != 0 ? outer.id : new_segments(1), .depth = outer.depth + 1};
}

}  // namespace

CheckpointScope::CheckpointScope()
    : outer_(current), segment_(inside(current)), around_(save_policy()), scope_(this) {
  current = segment_;
}

CheckpointScope::~CheckpointScope() { current = outer_; }

Decision CheckpointScope::decide(const RecordedCall& call) {
  return {std::vector<Fate>(call.node.outputs.size(), Fate::retain), segment_};
}

void CheckpointScope::recorded(const std::shared_ptr<Node>& node, const Tensors& outputs) {
  if (around_ != nullptr) around_->recorded(node, outputs);
}

void CheckpointScope::keep(const Tensor& result) const {
  if (!result.defined() || producer_of(result) == nullptr) return;
  std::shared_ptr<Value> value = value_of(result);
  const Segment& made_in = value->segment();
  if (made_in.id == segment_.id && made_in.depth == segment_.depth) value->leave_segment(outer_);
}

}  // namespace brim::autograd
