// A trace as one page for a browser: live bytes by category over time, the arena as a packing of
// address against time, and for every buffer where it comes from and how long it lives. The file
// needs no network and nothing beside it. For Perfetto there is chrome_trace.h; numbers for other
// programs are in the JSON of a trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "brim/memory/trace.h"

namespace brim::memory {

/// What the page says beside the trace. Bytes of 0 are not known, or not set.
struct PageOptions {
  std::string title = "Memory of a training step";
  std::vector<std::string> subtitle;  ///< lines below it: the model, the batch, the planner
  /// Of each buffer in the arena, -1 for one outside of it; empty: no picture of an arena.
  std::vector<int64_t> offsets;
  int64_t arena_bytes = 0;  ///< 0: as high as the offsets reach
  int64_t budget = 0;
  int64_t predicted_peak_live = 0, predicted_peak_reserved = 0;
  int64_t measured_peak_live = 0, measured_peak_reserved = 0;
  /// What happened, drawn over `trace`, which is then the prediction: each section of `trace` is
  /// compared with the one of `measured` that is of the same kind and size and as far in order.
  const Trace* measured = nullptr;
};

/// The whole text of the page, in UTF-8; what is not UTF-8 in names is escaped. Throws
/// `ValueError` for offsets that are not one a buffer or lie outside of the arena, and for a trace
/// whose lifetimes do not lie within it.
std::string html_page(const Trace& trace, const PageOptions& options = {});

}  // namespace brim::memory
