// What became of an update whose gradients may overflow (optim/loss_scaler.h): it was applied, or
// skipped, and where the overflow began.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "brim/autograd/op.h"

namespace brim {

struct Applied {};

/// Parameters, optimizer state, running statistics and averages are as before.
struct Skipped {
  int64_t step = 0;  ///< updates before it, applied or not
  /// Where the first result with an infinity or a NaN was: the path of the module and the op that
  /// ran in it. Empty where a second run of the step had none.
  std::string first_overflow_module, op;
  autograd::Phase phase = autograd::Phase::forward;
  double scale = 1;  ///< that the loss was multiplied by
  std::string text;  ///< the same for people, with the line of code
};

using StepOutcome = std::variant<Applied, Skipped>;

}  // namespace brim
