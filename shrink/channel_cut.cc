#include "brim/shrink/channel_cut.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "brim/core/transfer.h"
#include "brim/memory/staging_scope.h"

namespace brim::shrink {
namespace {

// The indices of an axis that the removed units of all groups leave, by tensor and axis.
std::map<std::pair<size_t, int>, std::vector<bool>> indices_left(const ChannelGroups& groups,
                                                                 const KeptUnits& kept) {
  std::map<std::pair<size_t, int>, std::vector<bool>> left;
  for (size_t g = 0; g < groups.groups.size(); ++g)
    for (const ChannelAxis& axis : groups.groups[g].axes) {
      const auto size = groups.tensors[axis.tensor].shape[axis.axis];
      auto& stays = left[{axis.tensor, axis.axis}];
      stays.resize(static_cast<size_t>(size), true);
      for (size_t i = 0; i < axis.indices.size(); ++i)
        if (!kept[g][i / static_cast<size_t>(axis.per_unit)])
          stays[static_cast<size_t>(axis.indices[i])] = false;
    }
  return left;
}

std::vector<int64_t> set_bits(const std::vector<bool>& bits) {
  std::vector<int64_t> indices;
  for (size_t i = 0; i < bits.size(); ++i)
    if (bits[i]) indices.push_back(static_cast<int64_t>(i));
  return indices;
}

// `whole` is contiguous, and on the CPU or without values.
Tensor select(const Tensor& whole, const KeptAxis& kept) {
  Shape shape = whole.shape();
  expect<ShapeError>(kept.axis < shape.size() && kept.indices.back() < shape[kept.axis], "prune",
                     "expected at least {} along axis {} of {}", kept.indices.back() + 1, kept.axis,
                     shape);
  const int64_t size = shape[kept.axis];
  shape[kept.axis] = static_cast<int64_t>(kept.indices.size());
  Tensor part = empty(shape, {.dtype = whole.dtype(), .device = whole.device()});
  if (whole.device().is_meta() || whole.storage()->version() == 0) return part;
  check(whole.device().is_cpu(), "channels are taken out on the host");
  int64_t outer = 1, inner = size_of(whole.dtype());
  for (int axis = 0; axis < kept.axis; ++axis) outer *= shape[axis];
  for (int axis = kept.axis + 1; axis < shape.size(); ++axis) inner *= shape[axis];
  const auto* from = static_cast<const std::byte*>(whole.data());
  auto* to = static_cast<std::byte*>(part.data());
  for (int64_t o = 0; o < outer; ++o, from += size * inner)
    for (int64_t index : kept.indices) {
      std::memcpy(to, from + index * inner, static_cast<size_t>(inner));
      to += inner;
    }
  part.storage()->note_write("prune");
  return part;
}

// "conv.weight" of "momentum.conv.weight".
std::string owner_of(const std::string& state) { return state.substr(state.find('.') + 1); }

// A tensor to choose from: a GPU's by way of the host.
Tensor on_host(const Tensor& whole) {
  if (!whole.device().is_cuda()) return whole;
  return whole.storage()->version() > 0 ? staged_on_host(whole)
                                        : empty(whole.shape(), {.dtype = whole.dtype()});
}

// What changes, with what it becomes, in host memory of its own.
std::vector<std::pair<Tensor, Tensor>> parts_of(nn::Module& model, const ChannelCut& cut,
                                                const std::vector<nn::NamedTensor>& state) {
  memory::StagingScope staging;
  std::vector<std::pair<Tensor, Tensor>> parts;
  std::unordered_set<const TensorBody*> known;  // a tensor that two modules share is one
  auto take = [&](const std::string& name, const Tensor& whole) {
    Tensor part = cut.apply_to(name, whole);
    if (!part.is_same(whole)) parts.emplace_back(whole, std::move(part));
  };
  model.for_each_slot([&](const std::string& name, const nn::Module::Slot& slot) {
    if (!known.insert(slot.tensor->body()).second) return;
    take(name, *slot.tensor);
    if (slot.tensor->grad().defined()) take(name, slot.tensor->grad());
  });
  for (const nn::NamedTensor& of : state) take(owner_of(of.name), of.tensor);
  return parts;
}

// The same on `device`, in memory of the account in force.
Tensor in_force(const Tensor& tensor, Device device) {
  memory::CategoryScope category(tensor.storage()->category());
  const TensorOptions options{.dtype = tensor.dtype(), .device = device};
  if (tensor.storage()->version() == 0) return empty(tensor.shape(), options);
  return tensor.device() == device ? clone(tensor) : convert_to(tensor, options);
}

}  // namespace

ChannelCut::ChannelCut(const ChannelGroups& groups, const KeptUnits& kept) {
  for (const auto& [place, stays] : indices_left(groups, kept)) {
    const auto [tensor, axis] = place;
    if (std::ranges::count(stays, false) == 0) continue;
    const std::string& name = groups.tensors[tensor].name;
    check(std::ranges::count(stays, true) > 0, "something of each axis stays");
    tensors_[name].push_back({axis, set_bits(stays)});
  }
}

const std::vector<KeptAxis>& ChannelCut::kept(const std::string& tensor) const {
  static const std::vector<KeptAxis> all;
  auto found = tensors_.find(tensor);
  return found == tensors_.end() ? all : found->second;
}

Shape ChannelCut::shape_after(const std::string& tensor, Shape shape) const {
  for (const KeptAxis& axis : kept(tensor))
    shape[axis.axis] = static_cast<int64_t>(axis.indices.size());
  return shape;
}

Tensor ChannelCut::apply_to(const std::string& tensor, const Tensor& whole) const {
  const std::vector<KeptAxis>& axes = kept(tensor);
  if (axes.empty()) return whole;
  memory::CategoryScope category(whole.storage()->category());
  Tensor part = contiguous(on_host(whole));
  for (const KeptAxis& axis : axes) part = select(part, axis);
  return part;
}

void exchange(const Tensor& a, const Tensor& b) noexcept {
  std::swap(a.body()->layout, b.body()->layout);
  std::swap(a.body()->storage, b.body()->storage);
}

void remove_channels(nn::Module& model, const ChannelCut& cut,
                     const std::vector<nn::NamedTensor>& state) {
  std::vector<std::pair<Tensor, Tensor>> changes = parts_of(model, cut, state);
  if (changes.empty()) return;
  const Device device = changes.front().first.device();
  for (auto& [whole, part] : changes) {
    exchange(whole, part);
    part = Tensor();  // which has the bytes of the whole by now
  }
  for (const auto& [tensor, none] : changes) exchange(tensor, in_force(tensor, device));
  model.name_in_account();
}

}  // namespace brim::shrink
