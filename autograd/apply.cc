// Running ops and recording them.
#include <algorithm>
#include <atomic>

#include "brim/autograd/effects.h"
#include "brim/autograd/in_place.h"
#include "brim/autograd/input_rule.h"
#include "brim/autograd/node.h"
#include "brim/autograd/offload.h"
#include "brim/autograd/op.h"
#include "brim/autograd/save.h"

namespace brim::autograd {
namespace {

thread_local bool recording = true;
thread_local OpObserver* observers = nullptr;
std::atomic<uint64_t> next_sequence = 1;

TensorInfo info_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {tensor.shape(), tensor.dtype(), tensor.device()};
}

Edge edge_to(const Tensor& tensor) {
  if (!tensor.requires_grad()) return {};
  if (auto node = producer_of(tensor)) return {std::move(node), tensor.body()->output, nullptr};
  return {nullptr, 0, tensor.shared_body()};
}

Needs needs_of(const Tensors& inputs) {
  Needs needs;
  for (const Tensor& input : inputs) needs.push_back(input.requires_grad());
  return needs;
}

std::shared_ptr<Node> make_node(std::shared_ptr<const Op> op, const Tensors& inputs,
                                const Tensors& outputs) {
  auto node = std::make_shared<Node>();
  for (const Tensor& input : inputs) node->edges.push_back(edge_to(input));
  node->inputs = infos_of(inputs);
  node->outputs = infos_of(outputs);
  node->op = std::move(op);
  node->sequence = next_sequence++;
  node->values.resize(outputs.size());
  return node;
}

void attach(const std::shared_ptr<Node>& node, Tensors& outputs, int visible) {
  for (int i = 0; i < visible; ++i) {
    Tensor& output = outputs[static_cast<size_t>(i)];
    if (!output.defined() || !is_floating(output.dtype())) continue;
    // Recording would turn the caller's tensor into a result of this op.
    check(output.is_leaf() && !output.requires_grad(), "an op returns new tensors, not its inputs");
    output.body()->producer = node;
    output.body()->output = i;
  }
}

Tensors run_forward(const Op& op, const Tensors& inputs, ForwardContext& context) {
  if (!op.is_random()) return op.forward(inputs, context);
  context.random = next_random_address(op.name());
  try {
    return op.forward(inputs, context);
  } catch (...) {
    give_back_random_address(op.name());  // the call tried again draws the same numbers
    throw;
  }
}

}  // namespace

std::vector<TensorInfo> infos_of(const Tensors& tensors) {
  std::vector<TensorInfo> infos;
  for (const Tensor& tensor : tensors) infos.push_back(info_of(tensor));
  return infos;
}

int64_t bytes_of(std::span<const TensorInfo> infos) {
  int64_t bytes = 0;
  for (const TensorInfo& info : infos) bytes += info.bytes();
  return bytes;
}

double Op::flops(std::span<const TensorInfo>, std::span<const TensorInfo> outputs) const {
  double count = 0;
  for (const TensorInfo& output : outputs) count += static_cast<double>(numel(output.shape));
  return count;
}

Tensors Op::forward_again(const Tensors& inputs, const Tensors&,
                          const ForwardContext& context) const {
  return forward(inputs, context);
}

bool grad_enabled() { return recording; }
GradModeScope::GradModeScope(bool enabled) : before_(recording) { recording = enabled; }
GradModeScope::~GradModeScope() { recording = before_; }

OpObserver::OpObserver() : before_(observers) { observers = this; }
OpObserver::~OpObserver() { observers = before_; }

void notify(const OpEvent& event) {
  for (OpObserver* observer = observers; observer != nullptr; observer = observer->before_)
    observer->ran(event);
}

Tensor factored_gradient(const OpEvent& event) {
  check(event.factors != nullptr, "the gradient came in factors");
  return product_on_host(*event.factors,
                         event.node->inputs[static_cast<size_t>(event.factored)].shape);
}

Tensors apply(std::shared_ptr<const Op> op, Inputs given, Where where) {
  Tensors prepared = std::move(given).take();
  if (InputRule* rule = input_rule()) rule->prepare(*op, prepared, where);
  const Tensors inputs = std::move(prepared);
  bool record = recording && op->is_differentiable() &&
                std::ranges::any_of(inputs, [](const Tensor& t) { return t.requires_grad(); });
  if (Offload* engine = record ? offload() : nullptr) engine->look();
  ForwardContext context;
  context.for_backward = record;
  const Saves saves = record ? op->saves(needs_of(inputs)) : Saves();
  if (in_place_enabled()) context.overwrite = input_to_overwrite(*op, inputs, saves);
  const std::string& module = module_path();
  memory::SiteScope site({.op = op->name(),
                          .module = &module,
                          .file = where.file_name(),
                          .line = where.line(),
                          .phase = memory::Phase::forward});
  Tensors outputs = run_forward(*op, inputs, context);
  apply_effects(*op, inputs, outputs);
  const int overwritten = input_overwritten(context, inputs, outputs);
  context.overwrite = -1;  // a call that runs again has inputs of its own
  notify({*op, Phase::forward, inputs, outputs, context, where, module, nullptr, overwritten});
  int visible = op->visible_outputs();
  if (record) {
    auto node = make_node(op, inputs, outputs);
    node->context = context;
    node->where = where;
    node->module = &module;
    save(node, inputs, outputs, saves, overwritten);
    attach(node, outputs, visible);
  }
  outputs.resize(static_cast<size_t>(visible));
  return outputs;
}

Tensor apply_one(std::shared_ptr<const Op> op, Inputs inputs, Where where) {
  Tensors outputs = apply(std::move(op), std::move(inputs), where);
  return std::move(outputs.front());
}

}  // namespace brim::autograd
