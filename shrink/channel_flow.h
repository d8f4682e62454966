// One call of an op, as a rule for its channels sees it (shrink/channel_rules.h).
#pragma once

#include "brim/autograd/op.h"
#include "brim/shrink/channel_groups.h"
#include "brim/shrink/channel_labels.h"

namespace brim::shrink {

class ChannelTracer;

class ChannelFlow {
 public:
  ChannelFlow(ChannelTracer& tracer, const autograd::OpEvent& event)
      : tracer_(tracer), event_(event) {}

  const autograd::Op& op() const { return event_.op; }
  size_t inputs() const { return event_.inputs.size(); }
  /// Optional inputs may be missing.
  bool has(size_t input) const { return input < inputs() && event_.inputs[input].defined(); }
  const Shape& input_shape(size_t i) const { return event_.inputs[i].shape(); }
  size_t outputs() const { return static_cast<size_t>(event_.op.visible_outputs()); }
  const Shape& output_shape(size_t i) const { return event_.outputs[i].shape(); }

  ChannelSets& sets();
  /// Those of input i. Of a parameter, along the only axis that is longer than 1; one with several
  /// keeps its shape from now on.
  ChannelLabels labels(size_t i);
  /// The channels along the last axis of input i. Where they depend on other axes too, all of them
  /// are fixed.
  ChannelIds channels(size_t i);
  /// The channels along an axis of input i, a parameter or buffer; all fixed where it is a result.
  ChannelIds axis(size_t i, int axis, ChannelRole role);
  /// The channels of input i cannot be removed.
  void fix(size_t i);

  /// What is not labelled is fixed.
  void label(size_t output, ChannelLabels labels);
  /// Along the last axis.
  void label_channels(size_t output, ChannelIds ids);

 private:
  ChannelTracer& tracer_;
  const autograd::OpEvent& event_;
};

}  // namespace brim::shrink
