// Checks an op's backward against central differences of its forward, as `torch.autograd.gradcheck`
// does. Use it on ops of your own, in float64: lower precisions are too coarse for differences.
// Slow by design (two forwards per input element), so keep inputs to some hundred elements. The ops
// of ops/ are tested by `check_op` (tests/support/op_spec.h), which also looks at layouts and
// bytes.
#pragma once

#include <functional>
#include <string>

#include "brim/autograd/op.h"

namespace brim {

struct GradcheckOptions {
  double step = 1e-6;
  /// |analytic - numeric| <= absolute + relative * |numeric|. Central differences of a smooth
  /// function at step h err by h^2/6 of its third derivative plus epsilon/h of its value.
  double absolute = 1e-7, relative = 1e-6;
  /// Leave these elements out: points where the function has a kink.
  std::function<bool(size_t input, double value)> skip;
};

struct GradcheckResult {
  bool passed = true;
  double worst = 0;     ///< largest error over its allowance
  std::string message;  ///< names the worst element when it failed
  explicit operator bool() const { return passed; }
};

/// `function` maps inputs to one or more outputs; it must be deterministic. Inputs that require
/// gradients must be float64; the gradient of a randomly weighted sum of all outputs is compared
/// element by element.
GradcheckResult gradcheck(const std::function<Tensors(const Tensors&)>& function,
                          const Tensors& inputs, const GradcheckOptions& options = {});

}  // namespace brim
