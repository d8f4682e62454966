// What the parts of `TrainStep` share: a forward pass with its backward, in train_step.cc,
// fused_update.cc and skipped_update.cc. A program of its own opens the scopes that it wants.
#pragma once

#include <memory>

#include "brim/autograd/in_place.h"
#include "brim/autograd/offload.h"
#include "brim/autograd/save_policy.h"
#include "brim/memory/reclaimer.h"
#include "brim/train/train_step.h"

namespace brim {

/// What one forward pass saves for its backward, who moves it to the host, and who frees of it what
/// there is no room for, until both are done; and whether they write in place, also what backward
/// runs again.
class TrainStep::Saving {
 public:
  explicit Saving(const TrainStep& step)
      : in_place_(step.options_.in_place),
        moving_(step.offload_ != nullptr ? step.offload_.get() : autograd::offload()),
        policy_(step.options_.recompute.make_policy ? step.options_.recompute.make_policy()
                                                    : nullptr),
        reclaiming_(*step.account_, policy_ == nullptr ? nullptr : policy_->reclaimer()) {}
  autograd::SavePolicy* policy() const { return policy_.get(); }

 private:
  autograd::InPlaceScope in_place_;
  autograd::OffloadScope moving_;
  std::unique_ptr<autograd::SavePolicy> policy_;
  memory::ReclaimerScope reclaiming_;
};

}  // namespace brim
