// Whether a training moves saved tensors to host memory, and how many bytes of it it may take.
// Which ones is the policy's choice (`RecomputeOptions::make_policy`, fates `offload`); how they
// move is in autograd/offload.h. The numbers stay the same, to the bit.
#pragma once

#include <cstdint>

namespace brim {

struct OffloadOptions {
  /// Without it what a policy offloads is kept.
  bool enabled = false;
  /// Capacity of the host source; 0: the machine's memory. Beyond it values stay on the device.
  int64_t host_bytes = 0;
};

}  // namespace brim
