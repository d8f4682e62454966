// The channel that each element of a tensor belongs to, while a model is traced: an array of
// numbers that broadcasts to the tensor's shape. That of images is [1,1,1,C]; that of rows which
// were flattened from images [1,H*W*C], each number H*W times. Views and concatenations of a tensor
// make the same of its labels.
#pragma once

#include "brim/core/shape.h"
#include "brim/shrink/channel_sets.h"

namespace brim::shrink {

struct ChannelLabels {
  /// As many axes as the tensor has; 1 along those on which the channel does not depend.
  Shape shape;
  ChannelIds ids;  ///< row-major

  /// Of a tensor of `rank` axes whose elements belong to no channel that could be removed.
  static ChannelLabels fixed(int rank) {
    return {Shape::filled(rank, 1), ChannelIds{ChannelSets::kFixed}};
  }
  /// Of a tensor of `rank` axes with one channel for each index of `axis`.
  static ChannelLabels along(int axis, int rank, ChannelIds ids);

  /// Axes along which the channel is not always the same.
  int varying_axes() const;
};

/// The labels of all elements of a tensor of this shape, row-major.
ChannelIds expanded(const ChannelLabels& labels, const Shape& shape);
/// The shortest array that broadcasts to `ids`, one for each element of `shape`.
ChannelLabels compressed(ChannelIds ids, const Shape& shape);

}  // namespace brim::shrink
