#include "brim/tests/support/execution.h"

#include <algorithm>

#include "brim/autograd/backward.h"

namespace brim::testing {
namespace {

Tensors leaves_of(const OpSample& sample, const Tensors& inputs) {
  Tensors leaves;
  for (size_t i = 0; i < inputs.size(); ++i) {
    leaves.push_back(inputs[i].defined() ? inputs[i].detach() : Tensor());
    if (wants_grad(sample, i) && autograd::grad_enabled()) leaves.back().set_requires_grad();
  }
  return leaves;
}

std::shared_ptr<memory::Account> fresh_account(Device device) {
  if (device.is_cpu()) return memory::capped_host_account("caching");
  return std::make_shared<memory::Account>(device, std::make_unique<memory::NullSource>(),
                                           memory::planner_named("caching"));
}

Tensors copies_of(const Tensors& tensors) {
  Tensors copies;
  for (const Tensor& tensor : tensors)
    copies.push_back(tensor.defined() ? clone(tensor) : Tensor());
  return copies;
}

}  // namespace

bool wants_grad(const OpSample& sample, size_t i) {
  return sample.differentiable && sample.inputs[i].defined() &&
         is_floating(sample.inputs[i].dtype()) &&
         std::ranges::find(sample.no_grad, static_cast<int>(i)) == sample.no_grad.end();
}

Tensor weights_for(const Tensor& output, size_t number) {
  return uniform(output.shape(), -1, 1, derive(RandomKey{53}, number),
                 {.dtype = output.dtype(), .device = output.device()});
}

Execution execute(const OpSample& sample, const Tensors& inputs, const Tensors& weights) {
  Tensors leaves = leaves_of(sample, inputs);
  Execution result{.outputs = sample.run(leaves)};
  result.weights.resize(result.outputs.size());
  for (size_t k = 0; k < result.outputs.size(); ++k) {
    const Tensor& output = result.outputs[k];
    if (!output.defined() || !output.requires_grad()) continue;
    // Given in float64, but some ops have a result of one dtype only.
    result.weights[k] =
        weights.empty()
            ? weights_for(output, k)
            : convert_to(weights[k], {.dtype = output.dtype(), .device = output.device()});
    backward(output, {.grad = result.weights[k], .retain_graph = k + 1 < result.outputs.size()});
  }
  for (Tensor& output : result.outputs)
    if (output.defined()) output = output.detach();
  for (const Tensor& leaf : leaves) result.grads.push_back(leaf.defined() ? leaf.grad() : Tensor());
  return result;
}

Sandbox::Sandbox(Device device, int pattern)
    : account_(fresh_account(device)),
      ledger_(device.is_cpu(), pattern),
      scope_(std::make_unique<memory::AccountScope>(account_)) {
  account_->set_recorder(&ledger_);
}

Sandbox::~Sandbox() { leave(); }

void Sandbox::leave() {
  account_->set_recorder(nullptr);
  scope_.reset();
}

Isolated execute_isolated(const OpSample& sample, const Tensors& inputs, Device device,
                          int pattern) {
  Sandbox sandbox(device, pattern);
  Execution inside = execute(sample, inputs);
  sandbox.leave();
  Isolated result{
      .execution = {copies_of(inside.outputs), copies_of(inside.weights), copies_of(inside.grads)},
      .ledger = sandbox.ledger().entries(),
      .peak_live = sandbox.account().stats().peak_live};
  inside = {};
  result.held = sandbox.account().stats().live;
  return result;
}

}  // namespace brim::testing
