#include "brim/autograd/effects.h"

namespace brim::autograd {
namespace {
thread_local const std::vector<std::pair<Tensor, Tensor>>* active = nullptr;
thread_local EffectShare share;
thread_local bool applying = false;
}  // namespace

Tensor effect_target(const Tensor& buffer) {
  if (active != nullptr)
    for (const auto& [real, shadow] : *active)
      if (real.is_same(buffer)) return shadow;
  return buffer;
}

EffectShare effect_share() { return share; }

void apply_effects(const Op& op, const Tensors& inputs, const Tensors& outputs) {
  struct Applying {
    Applying() { applying = true; }
    ~Applying() { applying = false; }
  } scope;
  op.apply_effects(inputs, outputs);
}

bool is_applying_effects() { return applying; }

EffectScope::EffectScope(const std::vector<std::pair<Tensor, Tensor>>& shadows,
                         const EffectShare& of_update)
    : before_(active), share_before_(share) {
  active = &shadows;
  share = of_update;
}

EffectScope::~EffectScope() {
  active = before_;
  share = share_before_;
}

}  // namespace brim::autograd
