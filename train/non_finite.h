// Finds the first op whose result has a NaN or an infinity, forward or backward (PyTorch's anomaly
// detection looks at backward alone). Slow: it reads every result. Put it in scope and run forward
// and backward; `TrainStep` does so when a loss is not finite, or a gradient of an update in one
// part. Where one of several parts had it, and there is no loss scaler, which looks at each, it
// names the parameter.
#pragma once

#include <optional>
#include <string>

#include "brim/autograd/op.h"

namespace brim {

struct NonFinite {
  std::string module, op;  ///< the path of the module, "" for the root, and the op that ran in it
  autograd::Phase phase = autograd::Phase::forward;
  /// "first seen in the forward pass of 'conv2d' in module layer1.0.conv2 (net.cc:31): its
  /// inputs were finite"
  std::string text;
};

class NonFiniteFinder final : public autograd::OpObserver {
 public:
  /// Nothing while everything is finite.
  const std::optional<NonFinite>& found() const { return found_; }
  void ran(const autograd::OpEvent& event) override;

 private:
  std::optional<NonFinite> found_;
};

}  // namespace brim
