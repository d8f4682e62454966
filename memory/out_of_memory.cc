#include "brim/memory/out_of_memory.h"

#include "brim/base/bytes.h"
#include "brim/memory/source.h"

namespace brim::memory {
namespace {

std::string describe(const Shortage& s) {
  std::string total = s.total == Source::kUnlimited ? "no set limit" : format_bytes(s.total);
  std::string text =
      s.requested == 0
          ? fmt::format("a library got no memory of its own from {}", to_string(s.device))
          : fmt::format("{}asked {} for {} ({} bytes) of {}", s.injected ? "injected fault: " : "",
                        to_string(s.device), format_bytes(s.requested), s.requested,
                        to_string(s.category));
  text += fmt::format("; device total {}, live {}, cached {}, fragmented {}", total,
                      format_bytes(s.live), format_bytes(s.cached), format_bytes(s.fragmented));
  if (s.total != Source::kUnlimited) text += fmt::format(", free {}", format_bytes(s.free));
  text += "; live by category:";
  for (size_t i = 0; i < kCategories; ++i)
    if (s.by_category[i] != 0)
      text += fmt::format(" {} {},", kCategoryNames[i], format_bytes(s.by_category[i]));
  if (text.back() == ',') text.pop_back();
  if (text.back() == ':') text += " nothing";
  return text;
}

}  // namespace

OutOfMemory::OutOfMemory(const Shortage& shortage)
    : Error("out of memory", describe(shortage)), shortage_(shortage) {}

}  // namespace brim::memory
