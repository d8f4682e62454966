// What an op's backward function is given: gradients, and what was saved.
#include <algorithm>
#include <deque>
#include <utility>

#include "brim/autograd/factors_taker.h"
#include "brim/autograd/node.h"
#include "brim/autograd/op.h"
#include "brim/autograd/saved_rows.h"

namespace brim::autograd {
namespace {

const SavedTensor& find_saved(const std::vector<std::pair<int, SavedTensor>>& saved, int i) {
  for (const auto& [number, tensor] : saved)
    if (number == i) return tensor;
  raise<InternalError>("backward", "tensor {} was not saved", i);
}

}  // namespace

Tensor BackwardCall::grad(int i) const { return contiguous(grad_view(i)); }

Tensor BackwardCall::grad_view(int i) const {
  const Tensor& grad = grads_[static_cast<size_t>(i)];
  if (grad.defined()) return grad;
  const TensorInfo& info = output_info(i);
  return zeros(info.shape, info.options());
}

Tensor BackwardCall::take_grad(int i) {
  Tensor grad = this->grad(i);
  grads_[static_cast<size_t>(i)] = Tensor();
  return grad;
}

Tensor BackwardCall::take_grad_view(int i) {
  Tensor grad = grad_view(i);
  grads_[static_cast<size_t>(i)] = Tensor();
  return grad;
}

Tensor BackwardCall::input(int i) const {
  return find_saved(node_.saved_inputs, i).get(node_.op->name());
}
Tensor BackwardCall::output(int i) const {
  return find_saved(node_.saved_outputs, i).get(node_.op->name());
}

Tensor BackwardCall::take_input(int i) {
  Tensor tensor = input(i);
  if (!retain_graph_) {
    node_.released = true;  // also where the call fails afterwards
    std::deque<SavedTensor> taken;
    for (auto& [number, saved] : node_.saved_inputs)
      if (number == i) taken.push_back(std::move(saved));
    std::erase_if(node_.saved_inputs, [&](const auto& saved) { return saved.first == i; });
    Node::release(std::move(taken));
  }
  return tensor;
}

SavedRows BackwardCall::take_input_rows(int i) {
  auto found =
      std::ranges::find(node_.saved_inputs, i, [](const auto& saved) { return saved.first; });
  check(found != node_.saved_inputs.end(), "what backward reads was saved");
  Value* value = found->second.value();
  if (value == nullptr || !node_.remakes_rows(i, *value)) return SavedRows(take_input(i));
  if (retain_graph_) return SavedRows({}, *value, node_.op->name());
  node_.released = true;
  SavedTensor taken = std::move(found->second);
  node_.saved_inputs.erase(found);
  return SavedRows(std::move(taken), *value, node_.op->name());
}

bool BackwardCall::is_derived(int i) const {
  const Value* value = find_saved(node_.saved_outputs, i).value();
  return value != nullptr && node_.derives_output(i, *value);
}
Tensor BackwardCall::replay_input(int i) const {
  return node_.replay_inputs[static_cast<size_t>(i)].get(node_.op->name());
}

const TensorInfo& BackwardCall::input_info(int i) const {
  return node_.inputs[static_cast<size_t>(i)];
}
const TensorInfo& BackwardCall::output_info(int i) const {
  return node_.outputs[static_cast<size_t>(i)];
}
int BackwardCall::inputs() const { return static_cast<int>(node_.inputs.size()); }
bool BackwardCall::needs(int i) const { return node_.edges[static_cast<size_t>(i)].wanted(); }

Tensor BackwardCall::take_sum(int i) {
  const Edge& edge = node_.edges[static_cast<size_t>(i)];
  if (edge.node == nullptr || !edge.node->queued) return {};
  Tensor& sum = edge.node->grads[static_cast<size_t>(edge.output)];
  if (!sum.defined() || !is_unshared(sum) || !sum.is_contiguous()) return {};
  return std::exchange(sum, Tensor());
}

bool BackwardCall::takes_factors(int i) const {
  return taker_ != nullptr && taker_->takes_factors(node_, i);
}

void BackwardCall::give_factors(int i, GradientFactors factors) {
  check(taker_ != nullptr, "factors are given where they are taken");
  taker_->take_factors(node_, i, std::move(factors));
}

const RandomAddress& BackwardCall::random() const { return node_.context.random; }

}  // namespace brim::autograd
