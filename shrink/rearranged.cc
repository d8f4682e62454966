#include "brim/shrink/rearranged.h"

#include <algorithm>
#include <utility>

#include "brim/memory/staging_scope.h"

namespace brim::shrink {
namespace {

// Added to labels while an op moves them: tells them from values that the op puts in by itself.
constexpr int64_t kLabel = int64_t{1} << 61;

bool is_label(int64_t value) { return value >= kLabel; }

struct Moved {
  ChannelIds values;  ///< labels plus `kLabel`, and whatever else the op put there
  Shape shape;
};

// The op's outputs for labels in place of its inputs.
std::vector<Moved> move_labels(ChannelFlow& flow) {
  memory::StagingScope staging;
  Tensors inputs;
  for (size_t i = 0; i < flow.inputs(); ++i) {
    ChannelIds values = expanded(flow.labels(i), flow.input_shape(i));
    for (int64_t& value : values) value += kLabel;
    inputs.push_back(from_vector(values, flow.input_shape(i)));
  }
  const Tensors outputs = flow.op().forward(inputs, {});
  std::vector<Moved> moved;
  for (size_t i = 0; i < flow.outputs(); ++i)
    moved.push_back({outputs[i].to_vector<int64_t>(), outputs[i].shape()});
  return moved;
}

// What is no label belongs to the fixed channels.
ChannelLabels labels_of(Moved moved) {
  for (int64_t& value : moved.values)
    value = is_label(value) ? value - kLabel : ChannelSets::kFixed;
  return compressed(std::move(moved.values), moved.shape);
}

std::vector<ChannelLabels> moved_labels(ChannelFlow& flow) {
  std::vector<ChannelLabels> labels;
  for (Moved& moved : move_labels(flow)) labels.push_back(labels_of(std::move(moved)));
  return labels;
}

// Along one axis: how many fresh channels an op has put before and behind `inside` old ones, and
// whether it put zeros there.
struct Border {
  int64_t before = 0, after = 0;
  bool is_zero = true;
};

Border border_of(const Moved& moved, int axis, int64_t inside) {
  const int64_t size = moved.shape[axis];
  int64_t inner = 1;
  for (int i = axis + 1; i < moved.shape.size(); ++i) inner *= moved.shape[i];
  Border border{.before = size};
  for (size_t i = 0; i < moved.values.size(); ++i) {
    const int64_t value = moved.values[i];
    if (is_label(value))
      border.before = std::min(border.before, static_cast<int64_t>(i) / inner % size);
    else
      border.is_zero = border.is_zero && value == 0;
  }
  border.after = size - inside - border.before;
  return border;
}

}  // namespace

void rearranged_rule(ChannelFlow& flow) {
  std::vector<ChannelLabels> labels = moved_labels(flow);
  for (size_t i = 0; i < labels.size(); ++i) flow.label(i, std::move(labels[i]));
}

void split_rule(ChannelFlow& flow) {
  const int64_t whole = static_cast<int64_t>(flow.labels(0).ids.size());
  std::vector<ChannelLabels> parts = moved_labels(flow);
  const ChannelIds first = parts.front().ids;
  const bool are_equal = std::ranges::all_of(
      parts, [&](const ChannelLabels& part) { return part.ids.size() == first.size(); });
  for (size_t i = 0; i < parts.size(); ++i) {
    if (static_cast<int64_t>(parts[i].ids.size()) != whole) {  // split along the channels
      if (are_equal)
        flow.sets().unite(first, parts[i].ids);
      else
        flow.sets().fix(parts[i].ids);
    }
    flow.label(i, std::move(parts[i]));
  }
}

void slice_rule(ChannelFlow& flow) {
  const size_t whole = flow.labels(0).ids.size();
  ChannelLabels part = moved_labels(flow).front();
  if (part.ids.size() != whole) flow.fix(0);
  flow.label(0, std::move(part));
}

void pad_rule(ChannelFlow& flow) {
  const ChannelLabels old = flow.labels(0);
  if (old.varying_axes() != 1) return flow.fix(0);
  const auto axis = static_cast<int>(std::ranges::max_element(old.shape) - old.shape.begin());
  const Border border = border_of(move_labels(flow).front(), axis, old.shape[axis]);
  ChannelIds ids = flow.sets().add(border.before), behind = flow.sets().add(border.after);
  if (border.is_zero && border.before == border.after) {
    flow.sets().unite(ids, behind);
  } else {
    flow.sets().fix(ids);
    flow.sets().fix(behind);
  }
  ids.insert(ids.end(), old.ids.begin(), old.ids.end());
  ids.insert(ids.end(), behind.begin(), behind.end());
  flow.label(0, ChannelLabels::along(axis, old.shape.size(), std::move(ids)));
}

}  // namespace brim::shrink
