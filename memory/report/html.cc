#include "brim/memory/report/html.h"

#include <algorithm>
#include <string_view>

#include "brim/base/error.h"
#include "brim/memory/report/live_curve.h"
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

std::string escaped(std::string_view text) {
  std::string safe;
  for (char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else
      safe += c;
  }
  return safe;
}

}  // namespace

std::string html_page(const Trace& trace, const PageOptions& options) {
  check_trace(trace, kTag);
  if (options.measured != nullptr) check_trace(*options.measured, kTag);
  PageOptions complete = options;
  complete.arena_bytes = checked_arena(trace, options);

  constexpr std::string_view kTitle = "{{title}}", kData = "{{data}}";
  const size_t title = kPage.find(kTitle), data = kPage.find(kData);
  check(title != kPage.npos && data != kPage.npos && title < data, "marks in the page");
  std::string text(kPage.substr(0, title));
  text += escaped(options.title);
  text += kPage.substr(title + kTitle.size(), data - title - kTitle.size());
  text += page_data(trace, complete);
  text += kPage.substr(data + kData.size());
  return text;
}

}  // namespace brim::memory
