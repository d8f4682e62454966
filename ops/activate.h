// The op of an `Activation`, as a call of its own: for what takes one and has to do without its
// fused kernel. Where the activation is known, call `relu`, `relu6` or `hardswish`.
#pragma once

#include <utility>

#include "brim/ops/activation.h"
#include "brim/ops/hardswish.h"
#include "brim/ops/relu.h"
#include "brim/ops/relu6.h"

namespace brim {

/// activation(x), elementwise, of any shape; x itself for `Activation::none`. Throws what that op
/// throws, for a dtype that is not floating.
inline Tensor activate(Tensor x, Activation activation, const Where& where) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return relu(std::move(x), where);
    case Activation::relu6:
      return relu6(std::move(x), where);
    case Activation::hardswish:
      return hardswish(std::move(x), where);
  }
  return x;
}

}  // namespace brim
