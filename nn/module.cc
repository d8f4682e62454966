#include "brim/nn/module.h"

#include <algorithm>
#include <unordered_map>

#include "brim/base/nearest.h"
#include "brim/nn/creation.h"

namespace brim::nn {
namespace {

std::string join(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + '.' + name;
}

// A tensor like `like`, elsewhere or of another type, in the same role.
Tensor empty_in_role(const Tensor& like, const TensorOptions& options) {
  memory::CategoryScope category(like.storage()->category());
  Tensor tensor = empty(like.shape(), options);
  if (like.requires_grad()) tensor.set_requires_grad();
  return tensor;
}

TensorOptions options_of(const Shape& shape, bool is_parameter) {
  const TensorOptions& options = creation_options();
  return {.dtype = slot_dtype(options.dtype, shape, is_parameter), .device = options.device};
}

[[noreturn]] void raise_no_parameters(std::string_view prefix,
                                      const std::vector<std::string>& known) {
  raise<ValueError>("module", "has no parameters at or below '{}'{}", prefix,
                    did_you_mean(prefix, known));
}

}  // namespace

// Parameters start at version 0, and every write raises it.
bool has_values(const Tensor& tensor) {
  return tensor.storage()->version() > 0 || tensor.device().is_meta() || tensor.numel() == 0;
}

bool is_at_or_below(std::string_view name, std::string_view prefix) {
  if (prefix.empty()) return true;
  return name.starts_with(prefix) && (name.size() == prefix.size() || name[prefix.size()] == '.');
}

void Module::for_each_slot(const std::function<void(const std::string&, const Slot&)>& body) const {
  for (const Slot& slot : slots_)
    if (slot.tensor->defined()) body(slot.name, slot);
  for (const Module* child : children_)
    child->for_each_slot(
        [&](const std::string& name, const Slot& slot) { body(join(child->name_, name), slot); });
}

void Module::name_in_account() const {
  for_each_slot([](const std::string& name, const Slot& slot) {
    slot.tensor->storage()->set_site(
        {.op = slot.is_parameter ? "parameter" : "buffer", .module = &autograd::kept_path(name)});
  });
}

Tensor Module::forward(Tensor x) { return forward(std::vector<Tensor>{std::move(x)}); }

Tensor Module::forward(Tensor a, Tensor b) {
  return forward(std::vector<Tensor>{std::move(a), std::move(b)});
}

Tensor Module::forward(Tensor a, Tensor b, Tensor c) {
  return forward(std::vector<Tensor>{std::move(a), std::move(b), std::move(c)});
}

Tensor Module::forward(std::vector<Tensor> inputs) {
  raise<ValueError>("module", "{}{} has no forward of {} tensor{}", kind(),
                    name_.empty() ? "" : " '" + name_ + "'", inputs.size(),
                    inputs.size() == 1 ? "" : "s");
}

std::vector<NamedTensor> Module::named_parameters(std::string_view prefix) const {
  std::vector<NamedTensor> parameters;
  std::vector<std::string> known;
  for_each_slot([&](const std::string& name, const Slot& slot) {
    if (!slot.is_parameter) return;
    known.push_back(name);
    if (is_at_or_below(name, prefix)) parameters.push_back({name, *slot.tensor});
  });
  if (parameters.empty() && !prefix.empty()) raise_no_parameters(prefix, known);
  return parameters;
}

std::vector<NamedTensor> Module::named_buffers() const {
  std::vector<NamedTensor> buffers;
  for_each_slot([&](const std::string& name, const Slot& slot) {
    if (!slot.is_parameter) buffers.push_back({name, *slot.tensor});
  });
  return buffers;
}

std::vector<NamedModule> Module::named_modules() {
  std::vector<NamedModule> modules{{"", *this}};
  for (Module* child : children_) {
    if (child->bypassed_) continue;
    for (const NamedModule& below : child->named_modules())
      modules.push_back(
          {below.name.empty() ? child->name_ : join(child->name_, below.name), below.module});
  }
  return modules;
}

Tensor Module::tensor(std::string_view name) const {
  Tensor found;
  std::vector<std::string> known;
  for_each_slot([&](const std::string& candidate, const Slot& slot) {
    known.push_back(candidate);
    if (candidate == name) found = *slot.tensor;
  });
  expect<ValueError>(found.defined(), "module", "has no parameter or buffer '{}'{}", name,
                     did_you_mean(name, known));
  return found;
}

Module& Module::module(std::string_view name) {
  std::vector<std::string> known;
  for (const NamedModule& candidate : named_modules()) {
    if (candidate.name == name) return candidate.module;
    known.push_back(candidate.name);
  }
  raise<ValueError>("module", "has no module '{}'{}", name, did_you_mean(name, known));
}

void Module::bypass() {
  for_each_slot([](const std::string&, const Slot& slot) { *slot.tensor = Tensor(); });
  slots_.clear();
  children_.clear();
  owned_.clear();
  bypassed_ = true;
}

void Module::refuse_as_bypassed() const {
  raise<ValueError>("module", "'{}' is bypassed, and takes one tensor and nothing else", name_);
}

std::vector<std::string> Module::bypassed_modules() const {
  std::vector<std::string> names;
  for (const Module* child : children_) {
    if (child->bypassed_) names.push_back(child->name_);
    for (const std::string& below : child->bypassed_modules())
      names.push_back(join(child->name_, below));
  }
  return names;
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const NamedTensor& parameter : named_parameters()) count += parameter.tensor.numel();
  return count;
}

bool Module::is_folded() const {
  return folded_ || std::ranges::any_of(children_, &Module::is_folded);
}

void Module::refuse_as_folded() const {
  expect<ValueError>(!is_folded(), "module",
                     "{} has its batch norms folded, for inference alone: train one as it was made",
                     name_.empty() ? "the model" : fmt::format("'{}'", name_));
}

void Module::train(bool training) {
  if (training) refuse_as_folded();
  training_ = training && !frozen_;
  for (Module* child : children_) child->train(training);
}

void Module::zero_grad() {
  for_each_slot([](const std::string&, const Slot& slot) {
    if (slot.is_parameter) slot.tensor->set_grad(Tensor());
  });
}

void Module::freeze(std::string_view prefix) { set_frozen(prefix, true); }

void Module::unfreeze(std::string_view prefix) { set_frozen(prefix, false); }

void Module::set_frozen(std::string_view prefix, bool frozen) {
  bool any = false;
  std::vector<std::string> known;
  for (const NamedModule& below : named_modules()) {
    if (!below.name.empty()) known.push_back(below.name);
    if (!frozen && is_at_or_below(below.name, prefix)) below.module.refuse_as_folded();
  }
  for (NamedTensor& parameter : named_parameters()) {
    known.push_back(parameter.name);
    if (!is_at_or_below(parameter.name, prefix)) continue;
    parameter.tensor.set_requires_grad(!frozen);
    any = true;
  }
  if (!any) raise_no_parameters(prefix, known);
  for (const NamedModule& below : named_modules())
    if (is_at_or_below(below.name, prefix)) {
      below.module.frozen_ = frozen;
      below.module.training_ = !frozen;
    }
}

void Module::to(Dtype dtype) {
  CreationScope valid({.dtype = dtype});
  std::vector<std::pair<Tensor*, Tensor>> converted;
  for_each_slot([&](const std::string&, const Slot& slot) {
    const Tensor& old = *slot.tensor;
    const Dtype wanted = slot_dtype(dtype, old.shape(), slot.is_parameter);
    if (old.dtype() == wanted) return;
    Tensor tensor = empty_in_role(old, {.dtype = wanted, .device = old.device()});
    if (has_values(old)) copy_into(tensor, old);
    converted.emplace_back(slot.tensor, std::move(tensor));
  });
  for (auto& [member, tensor] : converted) *member = std::move(tensor);
}

void Module::register_parameter(std::string name, Tensor& member, const Shape& shape, Init init) {
  require_new_name(name);
  memory::CategoryScope category(memory::Category::parameters);
  member = empty(shape, options_of(shape, /*is_parameter=*/true));
  member.set_requires_grad();
  slots_.push_back({std::move(name), &member, std::move(init), true, this});
}

void Module::register_buffer(std::string name, Tensor& member, const Shape& shape, double value) {
  require_new_name(name);
  memory::CategoryScope category(memory::Category::other);
  member = full(shape, value, options_of(shape, /*is_parameter=*/false));
  slots_.push_back({std::move(name), &member, init::constant(value), false, this});
}

void Module::register_module(std::string name, Module& child) {
  require_new_name(name);
  expect<ValueError>(child.parent_ == nullptr, "module",
                     "'{}' is already registered as '{}'; a module has one parent", name,
                     child.name_);
  child.name_ = std::move(name);
  child.parent_ = this;
  children_.push_back(&child);
}

void Module::register_modules(std::initializer_list<NamedModule> children) {
  for (const NamedModule& child : children) register_module(child.name, child.module);
}

void Module::require_new_name(const std::string& name) const {
  expect<ValueError>(!name.empty() && name.find('.') == std::string::npos, "module",
                     "expected a name without dots, got '{}'", name);
  bool taken = false;
  for (const Slot& slot : slots_) taken |= slot.name == name;
  for (const Module* child : children_) taken |= child->name_ == name;
  expect<ValueError>(!taken, "module", "'{}' is registered twice", name);
}

bool Module::has_all_values() const {
  for (const Slot& slot : slots_)
    if (slot.tensor->defined() && !has_values(*slot.tensor)) return false;
  for (const Module* child : children_)
    if (!child->has_all_values()) return false;
  return true;
}

void Module::require_values() const {
  if (has_all_values()) return;  // no names are built for this, which happens on every call
  for_each_slot([&](const std::string& name, const Slot& slot) {
    expect<ValueError>(has_values(*slot.tensor), "module",
                       "parameter '{}' has no values yet: call nn::initialize(model, seed), or "
                       "load some",
                       name);
  });
}

MetaScope::MetaScope(Module& module) {
  std::vector<std::pair<Tensor*, Tensor>> twins;
  std::unordered_map<const TensorBody*, Tensor> of_shared;  // a tensor that two modules have
  module.for_each_slot([&](const std::string&, const Module::Slot& slot) {
    Tensor& twin = of_shared[slot.tensor->body()];
    if (!twin.defined())
      twin = empty_in_role(*slot.tensor, {.dtype = slot.tensor->dtype(), .device = Device::meta()});
    twins.emplace_back(slot.tensor, twin);
  });
  real_ = std::move(twins);
  for (auto& [member, tensor] : real_) std::swap(*member, tensor);
}

MetaScope::~MetaScope() {
  for (auto& [member, tensor] : real_) *member = std::move(tensor);
}

}  // namespace brim::nn
