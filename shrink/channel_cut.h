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

/// Makes the model's parameters and buffers smaller, and gradients that they have. All handles to
/// them, those of an optimizer for one, show the smaller tensors; what has their shape itself is to
/// be given in `state`: an optimizer's `named_state`, averages; each is called
/// "<what>.<parameter or buffer>". Between steps: there must be no tape.
///
/// Goes by way of the host's memory, so that the device need not have room for old and new at once.
/// Throws what `ChannelCut::apply_to` throws, and then nothing has changed; where the device gives
/// no longer what it just got back, `memory::OutOfMemory`: the model is smaller then, and some of
/// it in memory that is charged to nobody.
void remove_channels(nn::Module& model, const ChannelCut& cut,
                     const std::vector<nn::NamedTensor>& state = {});

/// All handles of each tensor show what those of the other did. Neither may be on a tape.
void exchange(const Tensor& a, const Tensor& b) noexcept;

}  // namespace brim::shrink
