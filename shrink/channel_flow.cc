#include "brim/shrink/channel_flow.h"

#include <utility>

#include "brim/shrink/channel_tracer.h"

namespace brim::shrink {

ChannelSets& ChannelFlow::sets() { return tracer_.sets(); }

ChannelLabels ChannelFlow::labels(size_t i) { return tracer_.labels_of(event_.inputs[i]); }

ChannelIds ChannelFlow::channels(size_t i) {
  const Shape& shape = input_shape(i);
  const ChannelLabels labels = this->labels(i);
  const int64_t size = shape.back();
  if (labels.varying_axes() > 1 || (labels.varying_axes() == 1 && labels.shape.back() == 1)) {
    sets().fix(labels.ids);
    return ChannelIds(static_cast<size_t>(size), ChannelSets::kFixed);
  }
  Shape last = Shape::filled(shape.size(), 1);
  last[shape.size() - 1] = size;
  return expanded(labels, last);
}

ChannelIds ChannelFlow::axis(size_t i, int axis, ChannelRole role) {
  return tracer_.axis_of(event_.inputs[i], axis, role);
}

void ChannelFlow::fix(size_t i) { sets().fix(labels(i).ids); }

void ChannelFlow::label(size_t output, ChannelLabels labels) {
  tracer_.set_labels(event_.outputs[output], std::move(labels));
}

void ChannelFlow::label_channels(size_t output, ChannelIds ids) {
  const int rank = output_shape(output).size();
  label(output, ChannelLabels::along(rank - 1, rank, std::move(ids)));
}

}  // namespace brim::shrink
