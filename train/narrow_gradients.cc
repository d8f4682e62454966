#include "brim/train/narrow_gradients.h"

namespace brim {

NarrowGradients::NarrowGradients(const std::vector<Tensor>& parameters, Dtype dtype)
    : dtype_(dtype) {
  for (const Tensor& parameter : parameters) {
    parameters_.insert(parameter.body());
    if (!parameter.grad().defined()) continue;
    before_.emplace(parameter.body(), std::pair(parameter, parameter.grad()));
    parameter.set_grad(Tensor());
  }
}

NarrowGradients::~NarrowGradients() {
  for (auto& [body, before] : before_) before.first.set_grad(std::move(before.second));
}

void NarrowGradients::complete(const Tensor& leaf) {
  if (!parameters_.contains(leaf.body())) return;
  Tensor gradient = leaf.grad();
  leaf.set_grad(Tensor());
  if (gradient.dtype() == Dtype::float32) {
    memory::CategoryScope category(memory::Category::gradients);
    gradient = convert_to(gradient, {.dtype = dtype_, .device = gradient.device()});
  }
  if (auto found = before_.find(leaf.body()); found != before_.end()) {
    accumulate_into(found->second.second, gradient);
    gradient = std::move(found->second.second);
    before_.erase(found);
  }
  leaf.set_grad(std::move(gradient));
}

}  // namespace brim
