// Who carries the bytes of saved tensors between a device and the host (offload.h). A copy that has
// begun is under way until it is finished: until then nobody writes to either side, and nobody
// reads what it writes to. So an engine may copy beside what the device computes; the one of the
// processor has copied when `begin` returns. When copies begin and are finished follows from the
// program alone (host_copy.h), whatever an engine makes of the time between.
#pragma once

#include <cstdint>
#include <memory>

#include "brim/base/device.h"

namespace brim::autograd {

enum class CopyDirection : uint8_t { to_host, to_device };

class CopyEngine {
 public:
  virtual ~CopyEngine() = default;
  /// Begins to copy `bytes`, after the work on them that this thread has enqueued. Returns the
  /// copy's number. What it throws leaves nothing under way.
  virtual uint64_t begin(void* to, const void* from, int64_t bytes, CopyDirection direction) = 0;
  /// The copy is done for all that is enqueued from now on, and both sides are the caller's again.
  /// Once for each copy. What fails is left to the next call that can throw.
  virtual void finish(uint64_t copy) noexcept = 0;
};

/// For tensors on `device`: copies on the processor, or by a GPU beside its work; none at all for
/// the meta device.
std::unique_ptr<CopyEngine> copy_engine(Device device);

}  // namespace brim::autograd
