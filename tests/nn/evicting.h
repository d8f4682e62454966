// Dynamic eviction on an account of its own, for tests of ops and modules. In a training
// `TrainStep` does the same.
#pragma once

#include <memory>

#include "brim/autograd/dynamic_eviction.h"

namespace brim::testing {

inline std::shared_ptr<memory::Account> direct_account(Device device = Device::cpu()) {
  std::unique_ptr<memory::Source> source;
  if (device.is_meta())
    source = std::make_unique<memory::NullSource>();
  else
    source = std::make_unique<memory::HostSource>();
  return std::make_shared<memory::Account>(device, std::move(source),
                                           memory::planner_named("direct"));
}

/// Eviction for what is computed while it lives, on an account of its own.
struct Evicting {
  explicit Evicting(int64_t budget = 0, Device device = Device::cpu())
      : account(direct_account(device)),
        of(account),
        eviction({.budget = budget}),
        reclaiming(*account, &eviction) {}
  /// Drops one result.
  bool drop() { return eviction.reclaim(*account, 1); }

  std::shared_ptr<memory::Account> account;
  memory::AccountScope of;
  autograd::DynamicEviction eviction;
  memory::ReclaimerScope reclaiming;
};

}  // namespace brim::testing
