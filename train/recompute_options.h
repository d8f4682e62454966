// Which saved tensors a training drops and makes again for backward, or moves to the host. The
// numbers stay the same, to the bit. `Trainer` and rehearsals take one; train/recompute_plan.h
// makes one for a budget. Around a function of your own use `autograd::checkpoint`.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "brim/autograd/planned_recomputation.h"
#include "brim/autograd/save_policy.h"

namespace brim {

struct RecomputeOptions {
  /// "off", "free", "3 segments of 40 calls": bytes follow from it, so two that drop different
  /// tensors have different names.
  std::string name = "off";
  /// Of one forward pass; null: everything that is saved is held.
  std::function<std::unique_ptr<autograd::SavePolicy>()> make_policy = {};
  /// Predicted, of a micro-step: what it waits for copies to the host and back. A rehearsal shows
  /// what runs again, and no waits.
  double wait_seconds = 0;
  /// What `planned_recomputation` was given, to keep it beside a plan; else null.
  std::shared_ptr<const autograd::Fates> fates = nullptr;
};

/// Results of elementwise ops and of batch norm are not kept where up to three such calls make them
/// again of what is kept anyway (autograd/free_recomputation.h).
RecomputeOptions free_recomputation();
/// In segments of `calls` recorded calls each (autograd/planned_recomputation.h).
RecomputeOptions segmented_recomputation(int64_t segments, int64_t calls);
/// What was planned for each result.
RecomputeOptions planned_recomputation(std::shared_ptr<const autograd::Fates> fates,
                                       double wait_seconds = 0);
/// Without a plan, for a model whose graph changes from step to step: what is saved is held while
/// all live bytes stay within `budget` in forward and backward, then dropped as the need arises
/// (autograd/dynamic_eviction.h). 0: while the account has room. Throws `ValueError` below 0.
RecomputeOptions dynamic_eviction(int64_t budget);

}  // namespace brim
