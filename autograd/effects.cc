#include "brim/autograd/effects.h"

namespace brim::autograd {
namespace {
thread_local const std::vector<std::pair<Tensor, Tensor>>* active = nullptr;
thread_local EffectShare share;
}  // namespace

Tensor effect_target(const Tensor& buffer) {
  if (active != nullptr)
    for (const auto& [real, shadow] : *active)
      if (real.is_same(buffer)) return shadow;
  return buffer;
}

EffectShare effect_share() { return share; }

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
