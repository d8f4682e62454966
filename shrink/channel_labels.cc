#include "brim/shrink/channel_labels.h"

#include <algorithm>
#include <utility>

namespace brim::shrink {
namespace {

// Of an array as `outer` runs of `size` blocks of `inner` numbers: does each block repeat the first
// of its run?
struct AxisView {
  int64_t outer = 1, size = 1, inner = 1;

  AxisView(const Shape& shape, int axis) : size(shape[axis]) {
    for (int i = 0; i < axis; ++i) outer *= shape[i];
    for (int i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  }
  bool is_constant(const ChannelIds& ids) const {
    for (int64_t o = 0; o < outer; ++o) {
      auto first = ids.begin() + o * size * inner;
      // Each block equals the one after it.
      if (!std::equal(first, first + (size - 1) * inner, first + inner)) return false;
    }
    return true;
  }
  // The first block of each run.
  void shorten(ChannelIds& ids) const {
    for (int64_t o = 0; o < outer; ++o)
      std::copy_n(ids.begin() + o * size * inner, inner, ids.begin() + o * inner);
    ids.resize(static_cast<size_t>(outer * inner));
  }
};

}  // namespace

ChannelLabels ChannelLabels::along(int axis, int rank, ChannelIds ids) {
  Shape shape = Shape::filled(rank, 1);
  shape[axis] = static_cast<int64_t>(ids.size());
  return {shape, std::move(ids)};
}

int ChannelLabels::varying_axes() const {
  return static_cast<int>(std::ranges::count_if(shape, [](int64_t size) { return size != 1; }));
}

ChannelIds expanded(const ChannelLabels& labels, const Shape& shape) {
  Strides strides = contiguous_strides(labels.shape);
  for (int axis = 0; axis < shape.size(); ++axis)
    if (labels.shape[axis] == 1) strides[axis] = 0;
  ChannelIds ids;
  const int64_t count = numel(shape);
  ids.reserve(static_cast<size_t>(count));
  Shape index = Shape::filled(shape.size(), 0);
  int64_t at = 0;
  while (static_cast<int64_t>(ids.size()) < count) {
    ids.push_back(labels.ids[static_cast<size_t>(at)]);
    for (int axis = shape.size() - 1; axis >= 0; --axis) {
      at += strides[axis];
      if (++index[axis] < shape[axis]) break;
      at -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return ids;
}

ChannelLabels compressed(ChannelIds ids, const Shape& shape) {
  ChannelLabels labels{shape, std::move(ids)};
  if (labels.ids.empty()) return ChannelLabels::fixed(shape.size());
  for (int axis = 0; axis < shape.size(); ++axis) {
    const AxisView view(labels.shape, axis);
    if (view.size == 1 || !view.is_constant(labels.ids)) continue;
    view.shorten(labels.ids);
    labels.shape[axis] = 1;
  }
  return labels;
}

}  // namespace brim::shrink
