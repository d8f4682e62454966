#include "brim/shrink/channel_tracer.h"

#include <algorithm>
#include <utility>

#include "brim/shrink/channel_flow.h"
#include "brim/shrink/channel_rules.h"
#include "brim/shrink/named_parts.h"

namespace brim::shrink {
ChannelTracer::ChannelTracer(nn::Module& model, const ChannelGroupOptions& options) {
  require_parts(model, options.exclude, "prune");
  model.for_each_slot([&](const std::string& name, const nn::Module::Slot& slot) {
    auto [at, is_new] = numbers_.try_emplace(slot.tensor->body(), leaves_.size());
    if (is_new) leaves_.push_back({.tensor = {name, slot.tensor->shape(), slot.is_parameter}});
    if (is_in_parts(name, options.exclude)) keep_shape(leaves_[at->second]);
  });
}

void ChannelTracer::ran(const autograd::OpEvent& event) {
  if (event.phase != autograd::Phase::forward) return;
  ChannelRule rule = channel_rule(event.op.name());
  if (!rule) {
    unknown_.insert(event.op.name());
    rule = channel_rules::fixed;
  }
  ChannelFlow flow(*this, event);
  rule(flow);
}

void ChannelTracer::finish(const Tensor& output) { sets_.fix(labels_of(output).ids); }

ChannelTracer::Leaf* ChannelTracer::leaf_of(const Tensor& tensor) {
  auto found = numbers_.find(tensor.body());
  return found == numbers_.end() ? nullptr : &leaves_[found->second];
}

void ChannelTracer::keep_shape(Leaf& leaf) {
  leaf.keeps_shape = true;
  for (const Axis& axis : leaf.axes) sets_.fix(axis.ids);
}

ChannelIds ChannelTracer::axis_of_leaf(Leaf& leaf, int axis, ChannelRole role) {
  for (Axis& known : leaf.axes)
    if (known.axis == axis) return known.ids;
  leaf.axes.push_back({axis, role, sets_.add(leaf.tensor.shape[axis])});
  if (leaf.keeps_shape) sets_.fix(leaf.axes.back().ids);
  return leaf.axes.back().ids;
}

ChannelIds ChannelTracer::axis_of(const Tensor& tensor, int axis, ChannelRole role) {
  if (Leaf* leaf = leaf_of(tensor)) return axis_of_leaf(*leaf, axis, role);
  ChannelLabels labels = labels_of(tensor);
  // A bias that was cast to a half is as the one that it was made of.
  if (labels.varying_axes() == 1 && labels.shape[axis] == tensor.size(axis)) return labels.ids;
  sets_.fix(labels.ids);
  return ChannelIds(static_cast<size_t>(tensor.size(axis)), ChannelSets::kFixed);
}

ChannelLabels ChannelTracer::labels_of_leaf(Leaf& leaf) {
  const Shape& shape = leaf.tensor.shape;
  auto is_long = [](int64_t size) { return size != 1; };
  if (shape.empty() || std::ranges::count_if(shape, is_long) > 1) {
    keep_shape(leaf);
    return ChannelLabels::fixed(shape.size());
  }
  auto longest = std::ranges::find_if(shape, is_long);
  int axis = longest == shape.end() ? shape.size() - 1 : static_cast<int>(longest - shape.begin());
  return ChannelLabels::along(axis, shape.size(), axis_of_leaf(leaf, axis, ChannelRole::other));
}

ChannelLabels ChannelTracer::labels_of(const Tensor& tensor) {
  if (Leaf* leaf = leaf_of(tensor)) return labels_of_leaf(*leaf);
  auto found = results_.find(tensor.body());
  return found == results_.end() ? ChannelLabels::fixed(tensor.dim()) : found->second.labels;
}

// A unit is removed from a tensor as a slab. Where channels depend on several axes, as those of
// groups that are to be shuffled do, it is one across the longest axis.
void ChannelTracer::set_labels(const Tensor& tensor, ChannelLabels labels) {
  if (labels.varying_axes() > 1) {
    const auto longest = std::ranges::max_element(labels.shape);
    const auto axis = static_cast<int>(longest - labels.shape.begin());
    int64_t inner = 1;
    for (int i = axis + 1; i < labels.shape.size(); ++i) inner *= labels.shape[i];
    ChannelIds first(static_cast<size_t>(*longest), -1);
    for (size_t i = 0; i < labels.ids.size(); ++i) {
      int64_t& of = first[static_cast<size_t>(static_cast<int64_t>(i) / inner % *longest)];
      if (of < 0) of = labels.ids[i];
      sets_.unite(of, labels.ids[i]);
    }
  }
  results_.insert_or_assign(tensor.body(), Result{tensor, std::move(labels)});
}

}  // namespace brim::shrink
