// What stays of a model's tensors when channels are removed, and the removal itself. The same cut
// serves all that has a parameter's shape: its gradient, momentum, averages.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "brim/shrink/channel_groups.h"

namespace brim::shrink {

/// Which units of each group stay: `[group][unit]`.
using KeptUnits = std::vector<std::vector<bool>>;

/// The indices of an axis that stay, ascending.
struct KeptAxis {
  int axis = 0;
  std::vector<int64_t> indices;
};

class ChannelCut {
 public:
  /// Nothing is removed.
  ChannelCut() = default;
  ChannelCut(const ChannelGroups& groups, const KeptUnits& kept);

  /// Is no tensor made smaller?
  bool empty() const { return tensors_.empty(); }
  /// Of the parameter or buffer of that name; empty where it stays as it is.
  const std::vector<KeptAxis>& kept(const std::string& tensor) const;
  Shape shape_after(const std::string& tensor, Shape shape) const;
  /// A new tensor with the elements that stay; the tensor itself where all do. Throws `ShapeError`
  /// where a kept index lies beyond it, `memory::OutOfMemory`, `DeviceError` off the CPU and the
  /// meta device.
  Tensor apply_to(const std::string& tensor, const Tensor& whole) const;

 private:
  std::map<std::string, std::vector<KeptAxis>> tensors_;
};

/// Replaces the model's parameters and buffers, and gradients that they have; make optimizers
/// afterwards. Throws what `ChannelCut::apply_to` throws, and then nothing has changed.
void remove_channels(nn::Module& model, const ChannelCut& cut);

}  // namespace brim::shrink
