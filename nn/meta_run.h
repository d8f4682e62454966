// Forward alone, on the meta device: for who looks at a model's ops (autograd::OpObserver) and
// wants none of their numbers. No byte is touched, and no random number taken. The model may be
// anywhere, but nobody else may use it meanwhile.
#pragma once

#include <algorithm>
#include <optional>

#include "brim/autograd/random_context.h"
#include "brim/nn/module.h"
#include "brim/ops/autocast.h"

namespace brim::nn {

class MetaRun {
 public:
  /// The model's tensors have no values until this ends.
  explicit MetaRun(Module& model) : model_(model), on_meta_(model), random_(0, 0) {
    const std::vector<NamedTensor> parameters = model.named_parameters();
    if (!parameters.empty()) dtype_ = parameters.front().tensor.dtype();
    auto half = std::ranges::find_if(parameters, [](const NamedTensor& parameter) {
      return is_low_precision(parameter.tensor.dtype());
    });
    if (half == parameters.end()) return;
    dtype_ = Dtype::float32;
    autocast_.emplace(half->tensor.dtype());
  }

  /// `input` is the shape of the model's input, [N,H,W,C]; its dtype is that of the parameters, and
  /// where some are halves, float32 in mixed precision. Throws what the forward pass throws about
  /// shapes.
  Tensor forward(const Shape& input) {
    return model_(empty(input, {.dtype = dtype_, .device = Device::meta()}));
  }

 private:
  Module& model_;
  Dtype dtype_ = Dtype::float32;
  MetaScope on_meta_;
  autograd::NoGradScope no_grad_;
  autograd::RandomScope random_;
  std::optional<Autocast> autocast_;
};

}  // namespace brim::nn
