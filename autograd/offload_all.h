// A policy that sends all that is worth it to the host: the least device bytes that offloading
// gives, at the most copies. To measure with and to test; what a budget asks for is planned for
// each result (train/recompute_plan.h).
#pragma once

#include <cstdint>
#include <memory>

#include "brim/autograd/save_policy.h"

namespace brim::autograd {

/// Offloads what `inner` keeps (null: everything) of results with at least `least_bytes`. What it
/// has made again stays so.
class OffloadAll final : public SavePolicy {
 public:
  explicit OffloadAll(int64_t least_bytes = 0, std::unique_ptr<SavePolicy> inner = nullptr);
  Decision decide(const RecordedCall& call) override;
  bool keeps_for(const Node& reader, int i) override {
    return inner_ != nullptr && inner_->keeps_for(reader, i);
  }

 private:
  int64_t least_bytes_;
  std::unique_ptr<SavePolicy> inner_;
};

}  // namespace brim::autograd
