// What becomes of a value that backward will read, in the plan of a step (recompute.h) and on the
// tape that follows it (autograd/save_policy.h). A dropped one is made again by running its
// producer once more.
#pragma once

#include <cstdint>

namespace brim::memory {

enum class Fate : uint8_t {
  keep,    ///< held from forward to its last use
  retain,  ///< dropped; made again where backward first needs it, and held to its last use
  remake,  ///< dropped; made again for each use, and dropped again
  /// copied to host memory after its last use in forward, fetched ahead of the backward function
  /// that reads it, and held to its last use
  offload,
};

}  // namespace brim::memory
