// Side effects that can be taken back. Inside a training step, ops write running statistics to
// shadow copies; committing the step copies the shadows home, undoing it forgets them. For writers
// of ops with `Op::apply_effects` (of ops/, batch norm alone) and for `TrainStep`, which opens the
// scope. A buffer is known by its handle: writes through a view or a detached tensor are not
// redirected.
#pragma once

#include <utility>
#include <vector>

#include "brim/autograd/op.h"

namespace brim::autograd {

/// Where an op writes its effect on `buffer`: the buffer, or its shadow inside an `EffectScope`.
Tensor effect_target(const Tensor& buffer);

/// Which part of an update's samples runs inside a scope, for effects that are means over all of
/// them. Both are shares of the whole update.
struct EffectShare {
  double part = 1;
  double before = 0;  ///< of the parts that ran before it, whose effects the shadows have
};
EffectShare effect_share();

/// Calls `Op::apply_effects`.
void apply_effects(const Op& op, const Tensors& inputs, const Tensors& outputs);
/// Is that under way on this thread? What is launched then is not part of what runs again.
bool is_applying_effects();

/// Redirects effects of this thread from each first tensor to its second until the scope ends.
class EffectScope {
 public:
  explicit EffectScope(const std::vector<std::pair<Tensor, Tensor>>& shadows,
                       const EffectShare& share = {});
  ~EffectScope();
  EffectScope(const EffectScope&) = delete;
  EffectScope& operator=(const EffectScope&) = delete;

 private:
  const std::vector<std::pair<Tensor, Tensor>>* before_;
  EffectShare share_before_;
};

}  // namespace brim::autograd
