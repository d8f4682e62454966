// A measured trace laid over a predicted one, section by section: the live bytes of both at the
// same requests, and how far they are apart.
#pragma once

#include <cstdint>
#include <vector>

#include "brim/memory/trace.h"

namespace brim::memory {

/// Measured live bytes at the predicted times `begin`, `begin` + 1, ...
struct OverlayRun {
  int64_t begin = 0;
  std::vector<int64_t> live;
};

struct TraceOverlay {
  std::vector<OverlayRun> runs;
  int64_t compared = 0;            ///< requests
  int64_t largest_difference = 0;  ///< of live bytes, without its sign
  bool same_length = true;         ///< each pair of sections makes as many requests
};

/// The nth section of a kind and a number of samples is compared with the nth of `measured`; the
/// set-up before the first section with the set-up. Sections without a partner are left out.
TraceOverlay overlay(const Trace& predicted, const Trace& measured);

}  // namespace brim::memory
