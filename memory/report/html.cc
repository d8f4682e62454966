#include "brim/memory/report/html.h"

#include <algorithm>

#include "brim/base/error.h"
#include "brim/memory/report/live_curve.h"
#include "brim/memory/report/markup.h"
#include "brim/memory/report/page.h"
#include "brim/memory/report/page_data.h"

namespace brim::memory {
namespace {

constexpr const char* kTag = "html_page";

/// The end of the arena: as given, or where the last buffer ends.
int64_t checked_arena(const Trace& trace, const PageOptions& options) {
  if (options.offsets.empty()) return options.arena_bytes;
  expect<ValueError>(options.offsets.size() == trace.buffers.size(), kTag,
                     "expected an offset for each of {} buffers, got {}", trace.buffers.size(),
                     options.offsets.size());
  int64_t top = 0;
  for (size_t i = 0; i < options.offsets.size(); ++i) {
    if (options.offsets[i] == -1) continue;
    expect<ValueError>(options.offsets[i] >= 0, kTag, "buffer {} has the offset {}", i,
                       options.offsets[i]);
    top = std::max(top, options.offsets[i] + trace.buffers[i].bytes);
  }
  expect<ValueError>(options.arena_bytes == 0 || top <= options.arena_bytes, kTag,
                     "expected buffers within an arena of {} bytes, got one that ends at {}",
                     options.arena_bytes, top);
  return options.arena_bytes == 0 ? top : options.arena_bytes;
}

}  // namespace

std::string html_page(const Trace& trace, const PageOptions& options) {
  check_trace(trace, kTag);
  if (options.measured != nullptr) check_trace(*options.measured, kTag);
  PageOptions complete = options;
  complete.arena_bytes = checked_arena(trace, options);

  return filled(kPage,
                {{"{{title}}", escaped(options.title)}, {"{{data}}", page_data(trace, complete)}});
}

}  // namespace brim::memory
