// The training of a recipe as rehearsals see it, for plans and for what is kept of them.
#pragma once

#include <memory>

#include "brim/budget/plan_training.h"
#include "brim/train/rehearsal.h"

namespace brim {

/// With the batch and the micro-batch of the budget.
RehearsalOptions rehearsal_of(const std::shared_ptr<const Recipe>& recipe, const Budget& budget);

}  // namespace brim
