// The library that computes on the CPU beside brim's own kernels. Bytes of scratch and the last
// bits of results are its own, so plans and checkpoints name it.
#pragma once

#include <string>

namespace brim {

/// The one that is loaded, such as "oneDNN 3.7.2".
std::string library_version();

}  // namespace brim
