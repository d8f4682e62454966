#include "brim/nn/resize.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "brim/base/nearest.h"
#include "brim/nn/module.h"

namespace brim::nn {
namespace {

constexpr const char* kTag = "resize";

void validate(const Module& module, const TensorShapes& wanted) {
  const TensorShapes known = tensor_shapes(module);
  std::vector<std::string> names;
  for (const auto& [name, shape] : known) names.push_back(name);
  for (const auto& [name, shape] : wanted) {
    auto found = known.find(name);
    expect<ValueError>(found != known.end(), kTag, "the model has no parameter or buffer '{}'{}",
                       name, did_you_mean(name, names));
    const bool fits = shape.size() == found->second.size() &&
                      std::ranges::all_of(shape, [](int64_t size) { return size >= 1; });
    expect<ValueError>(fits, kTag, "'{}' is {} and cannot be {}", name, found->second, shape);
  }
}

Tensor in_place_of(const Tensor& old, const Shape& shape, Device device) {
  memory::CategoryScope category(old.storage()->category());
  Tensor tensor = empty(shape, {.dtype = old.dtype(), .device = device});
  if (old.requires_grad()) tensor.set_requires_grad();
  return tensor;
}

// Replaces each tensor for which `make` gives another; one that two modules have stays one.
template <class Make>
void replace_tensors(Module& module, const Make& make) {
  std::unordered_map<const TensorBody*, Tensor> known;
  std::vector<std::pair<Tensor*, Tensor>> changes;
  module.for_each_slot([&](const std::string& name, const Module::Slot& slot) {
    Tensor& tensor = known[slot.tensor->body()];
    if (!tensor.defined()) tensor = make(name, *slot.tensor);
    if (tensor.defined()) changes.emplace_back(slot.tensor, tensor);
  });
  for (auto& [member, tensor] : changes) *member = std::move(tensor);
}

}  // namespace

TensorShapes tensor_shapes(const Module& module) {
  TensorShapes shapes;
  module.for_each_slot([&](const std::string& name, const Module::Slot& slot) {
    shapes.emplace(name, slot.tensor->shape());
  });
  return shapes;
}

ModelSizes sizes_beside(const Module& module, const Module& made) {
  ModelSizes sizes{tensor_shapes(module), module.bypassed_modules()};
  const TensorShapes usual = tensor_shapes(made);
  std::erase_if(sizes.shapes, [&](const auto& entry) {
    auto found = usual.find(entry.first);
    return found == usual.end() || found->second == entry.second;
  });
  return sizes;
}

void resize(Module& module, const ModelSizes& sizes) {
  validate(module, sizes.shapes);
  for (const std::string& name : sizes.bypassed) {
    module.module(name);  // throws for none
    const auto covers = [&](const std::string& other) { return is_at_or_below(name, other); };
    expect<ValueError>(std::ranges::count_if(sizes.bypassed, covers) == 1, kTag,
                       "'{}' is bypassed twice, or with what it is in", name);
  }
  replace_tensors(module, [&](const std::string& name, const Tensor& old) {
    auto found = sizes.shapes.find(name);
    return found == sizes.shapes.end() ? Tensor() : in_place_of(old, found->second, old.device());
  });
  for (const std::string& name : sizes.bypassed) module.module(name).bypass();
}

void materialize(Module& module, Device device) {
  replace_tensors(module, [&](const std::string&, const Tensor& old) {
    return in_place_of(old, old.shape(), device);
  });
}

}  // namespace brim::nn
