// Who takes gradients in factors while backward runs: its engine, for `BackwardCall` to give them
// to.
#pragma once

#include "brim/autograd/gradient_factors.h"

namespace brim::autograd {

class Node;

class FactorsTaker {
 public:
  virtual ~FactorsTaker() = default;
  /// May the gradient of input i of this call be given in factors?
  virtual bool takes_factors(const Node& node, int i) const = 0;
  virtual void take_factors(const Node& node, int i, GradientFactors factors) = 0;
};

}  // namespace brim::autograd
