#include "brim/base/cuda/ranges.h"

#include <cstdlib>
#include <string_view>

// A toolkit may come without it, and the emulator has no timeline.
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define BRIM_HAS_NVTX
#endif

namespace brim::cuda {

bool names_are_seen() {
#ifdef BRIM_HAS_NVTX
  static const bool seen = [] {
    const char* asked = std::getenv("BRIM_NVTX");
    // Profilers name the library that they put in place.
    return std::getenv("NVTX_INJECTION64_PATH") != nullptr ||
           (asked != nullptr && std::string_view(asked) == "1");
  }();
  return seen;
#else
  return false;
#endif
}

NamedRange::NamedRange([[maybe_unused]] const char* name) {
#ifdef BRIM_HAS_NVTX
  nvtxRangePushA(name);
#endif
}

NamedRange::~NamedRange() {
#ifdef BRIM_HAS_NVTX
  nvtxRangePop();
#endif
}

}  // namespace brim::cuda
