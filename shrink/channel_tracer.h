// Follows channels through a forward pass on the meta device.
#pragma once

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "brim/autograd/op.h"
#include "brim/shrink/channel_groups.h"
#include "brim/shrink/channel_labels.h"

namespace brim::shrink {

class ChannelTracer final : public autograd::OpObserver {
 public:
  /// An axis of a leaf that some op reads channels from.
  struct Axis {
    int axis = 0;
    ChannelRole role = ChannelRole::other;
    ChannelIds ids;
  };
  /// A parameter or buffer.
  struct Leaf {
    ChannelTensor tensor;
    bool keeps_shape = false;
    std::vector<Axis> axes;
  };

  /// The model is on the meta device.
  ChannelTracer(nn::Module& model, const ChannelGroupOptions& options);

  void ran(const autograd::OpEvent& event) override;
  /// The model's result: its channels stay.
  void finish(const Tensor& output);

  ChannelSets& sets() { return sets_; }
  const std::vector<Leaf>& leaves() const { return leaves_; }
  const std::set<std::string>& unknown_ops() const { return unknown_; }

  ChannelLabels labels_of(const Tensor& tensor);
  ChannelIds axis_of(const Tensor& tensor, int axis, ChannelRole role);
  void set_labels(const Tensor& tensor, ChannelLabels labels);

 private:
  struct Result {
    Tensor tensor;  // kept, so that no other gets its address
    ChannelLabels labels;
  };

  Leaf* leaf_of(const Tensor& tensor);
  ChannelLabels labels_of_leaf(Leaf& leaf);
  ChannelIds axis_of_leaf(Leaf& leaf, int axis, ChannelRole role);
  void keep_shape(Leaf& leaf);

  ChannelSets sets_;
  std::vector<Leaf> leaves_;
  std::unordered_map<const TensorBody*, size_t> numbers_;  // of leaves
  std::unordered_map<const TensorBody*, Result> results_;
  std::set<std::string> unknown_;
};

}  // namespace brim::shrink
