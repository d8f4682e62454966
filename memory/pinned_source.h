// The host's memory, pinned, as a source: what a GPU copies from and to beside its work. Pinned
// bytes are no longer the system's to move or to lend, so have a capacity. For what a GPU does not
// see use `HostSource`.
#pragma once

#include <memory>
#include <string>

#include "brim/base/device.h"
#include "brim/memory/source.h"

namespace brim::memory {

class Account;

class PinnedSource final : public Source {
 public:
  /// For copies from and to this GPU.
  PinnedSource(Device device, int64_t capacity) : Source(capacity), device_(device) {}

 private:
  Device device_;

  void* take(int64_t bytes) override;
  void give_back(void* address, int64_t bytes) noexcept override;
};

/// An account of memory pinned for a GPU, at most `capacity` bytes, under the planner of this name.
/// `order`: whose `finish` waits for the copies under way, where some may be when memory is given
/// back.
std::shared_ptr<Account> pinned_account(Device device, int64_t capacity, const std::string& planner,
                                        std::shared_ptr<StreamOrder> order = nullptr);

}  // namespace brim::memory
