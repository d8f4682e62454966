// Which channels of a model can be removed, and what goes with each: found by running the model
// once on the meta device and following its channels from op to op, so it holds for any model,
// whatever its layers are called. The channels that a residual sum adds, those that a batch norm
// scales and a depthwise convolution filters go together; so do the columns of a linear layer
// behind a flattened image. What an op does to channels is a table, one line an op
// (shrink/channel_rules.h).
//
//   ChannelGroups groups = find_channel_groups(model, {1, 224, 224, 3});
//
// Never removable: channels of the model's input and output, and those that reach an op without a
// rule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "brim/nn/module.h"

namespace brim::shrink {

/// What an axis of a parameter or buffer counts.
enum class ChannelRole {
  output,     ///< of a product: one filter or row an index
  input,      ///< of a product
  scale,      ///< of a norm
  shift,      ///< a bias, of a product or a norm
  statistic,  ///< running mean or variance
  other,
};

/// A parameter or buffer with channels.
struct ChannelTensor {
  std::string name;  ///< dotted; the first one of a tensor that several modules share
  Shape shape;
  bool is_parameter = false;
};

/// The channels of a group along one axis of one tensor.
struct ChannelAxis {
  size_t tensor = 0;  ///< of `ChannelGroups::tensors`
  int axis = 0;
  ChannelRole role = ChannelRole::other;
  /// Indices that a unit has along the axis: more than one behind a flattened image, say.
  int64_t per_unit = 1;
  /// Unit by unit.
  std::vector<int64_t> indices;
};

/// Channels that are alike: each unit of them has the same number of indices of the same axes.
/// Units are removed whole, and one by one.
struct ChannelGroup {
  std::string name;  ///< of the first module whose product makes its channels
  int64_t units = 0;
  std::vector<ChannelAxis> axes;  ///< in the order in which tensors are registered

  /// That of the layer it is named after.
  const ChannelAxis& named_axis() const;
  /// Channels of that layer that a unit has.
  int64_t channels_per_unit() const { return named_axis().per_unit; }
};

struct ChannelGroups {
  std::vector<ChannelTensor> tensors;
  std::vector<ChannelGroup> groups;  ///< in the order of the trace
  /// Ops without a rule that channels reached, in the order of the alphabet.
  std::vector<std::string> unknown_ops;
};

struct ChannelGroupOptions {
  /// Modules and parameters whose shapes stay as they are: dotted names; all below them too.
  std::vector<std::string> exclude;
};

/// `input` is the shape of the model's input, [N,H,W,C]; its dtype is that of the parameters. What
/// is seen is one forward pass in eval mode: a model that has other branches in training is to be
/// excluded where they read. Throws `ValueError` for a name to exclude
/// that the model does not have, with the nearest, and what the forward pass throws about shapes.
ChannelGroups find_channel_groups(nn::Module& model, const Shape& input,
                                  const ChannelGroupOptions& options = {});

}  // namespace brim::shrink
