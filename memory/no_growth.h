// A scope at whose end no more bytes may be live than at its beginning: around one turn of a loop,
// it finds tensors that are kept by mistake, in a container, in a hook that holds its own graph, in
// a cycle of shared pointers. Let the loop run once before, so that what is made once is there. For
// what a whole program leaves behind see live_at_exit.h.
//
//   for (int i = 0; i < steps; ++i) {
//     memory::NoGrowth no_growth(Device::cpu());
//     step.run(rate, loss);
//   }
#pragma once

#include <memory>
#include <vector>

#include "brim/base/error.h"
#include "brim/memory/account.h"

namespace brim::memory {

/// More is live than was. The message names the largest buffers that were made inside and are held.
class GrowthError : public Error {
 public:
  GrowthError(int64_t grown, std::vector<BufferInfo> buffers);
  /// Bytes that are live now and were not.
  int64_t grown() const noexcept { return grown_; }
  /// Made inside and still held, the largest first.
  const std::vector<BufferInfo>& buffers() const noexcept { return buffers_; }

 private:
  int64_t grown_;
  std::vector<BufferInfo> buffers_;
};

class NoGrowth {
 public:
  /// Watches the account that the device has now.
  explicit NoGrowth(Device device);
  explicit NoGrowth(std::shared_ptr<Account> account);
  /// Checks, unless `check` has thrown already or the scope is left by an exception: then the
  /// bytes may be on their way home, and the first error is the one to see. This destructor
  /// throws: no member of a class and in no container, only a local variable.
  ~NoGrowth() noexcept(false);
  NoGrowth(const NoGrowth&) = delete;
  NoGrowth& operator=(const NoGrowth&) = delete;

  /// Throws `GrowthError` when more bytes are live than when the scope began.
  void check();

 private:
  std::shared_ptr<Account> account_;
  AccountStats before_;
  int exceptions_;
  bool failed_ = false;
};

}  // namespace brim::memory
