// Trainings whose parameters or optimizer state are kept in bfloat16 and rounded stochastically
// (optim/stochastic_rounding.h): fewer bytes, other numbers. As changes of a training that is to be
// rehearsed, for the ladder; a program that wants them makes its model in a `CreationScope` of
// bfloat16 (nn/creation.h), and its optimizer with `state` (optim/sgd.h, optim/adamw.h).
#pragma once

#include <optional>

#include "brim/train/rehearsal.h"

namespace brim {

/// What a training keeps its numbers in.
struct KeptTypes {
  bool low_parameters = false, has_averages = false;
  /// Nothing: the optimizer has no state, or cannot be made again with another type of it.
  std::optional<bool> low_state;
};
/// Makes model and optimizer, without bytes.
KeptTypes kept_types(const RehearsalOptions& rehearsal);

/// The same with state in bfloat16; `kept_types` must know of a state.
RehearsalOptions with_low_state(RehearsalOptions rehearsal);
/// The same with weights in bfloat16, in mixed precision of bfloat16.
RehearsalOptions with_low_parameters(RehearsalOptions rehearsal);

}  // namespace brim
