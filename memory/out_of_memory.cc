#include "brim/memory/out_of_memory.h"

#include <algorithm>
#include <new>

#include "brim/base/bytes.h"
#include "brim/memory/source.h"

namespace brim::memory {
namespace {

std::string split(const BytesByCategory& by_category) {
  std::string text;
  for (size_t i = 0; i < kCategories; ++i)
    if (by_category[i] != 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kCategoryNames[i],
                          format_bytes(by_category[i]));
  return text.empty() ? "nothing" : text;
}

std::string where(const Shortage& s) {
  std::string text = to_string(s.site);
  if (s.section) text += (text.empty() ? "" : "; in the ") + to_string(*s.section);
  return text;
}

std::string describe(const Shortage& s) {
  std::string text = first_line(s) + "\n  live by category: " + split(s.by_category);
  if (std::string place = where(s); !place.empty()) text += "\n  asked for by: " + place;
  if (!s.largest.empty()) text += "\n  largest live buffers:";
  for (const BufferInfo& buffer : s.largest) text += "\n  " + to_string(buffer);
  if (!s.remedies.empty()) text += "\n  planned, and found to fit:";
  for (const std::string& remedy : s.remedies) text += "\n    " + remedy;
  return text;
}

constexpr size_t kLargest = 10;

std::vector<BufferInfo> largest_of(const LiveBuffers& live) {
  std::vector<BufferInfo> largest;
  largest.reserve(kLargest + 1);
  for (const LiveBuffer* buffer = live.first(); buffer != nullptr; buffer = buffer->next) {
    if (largest.size() == kLargest && largest.back().bytes >= buffer->bytes) continue;
    auto smaller = std::ranges::find_if(
        largest, [&](const BufferInfo& other) { return other.bytes < buffer->bytes; });
    largest.insert(smaller, *buffer);
    if (largest.size() > kLargest) largest.pop_back();
  }
  return largest;
}

}  // namespace

std::string first_line(const Shortage& s) {
  std::string shape = to_string(s.shape);
  std::string text =
      s.requested == 0
          ? fmt::format("a library got no memory of its own from {}", to_string(s.device))
          : fmt::format("{}asked {} for {} ({} bytes) of {}{}{}",
                        s.injected ? "injected fault: " : "", to_string(s.device),
                        format_bytes(s.requested), s.requested, to_string(s.category),
                        shape.empty() ? "" : ", ", shape);
  std::string total = s.total == Source::kUnlimited ? "no set limit" : format_bytes(s.total);
  std::string live = format_bytes(s.live);
  if (s.live_limit != Source::kUnlimited)
    live += fmt::format(" (held to {})", format_bytes(s.live_limit));
  text += fmt::format("; device total {}, live {}, cached {}, fragmented {}", total, live,
                      format_bytes(s.cached), format_bytes(s.fragmented));
  if (s.total != Source::kUnlimited) text += fmt::format(", free {}", format_bytes(s.free));
  if (s.largest_hole > 0) text += fmt::format(", largest hole {}", format_bytes(s.largest_hole));
  return text;
}

OutOfMemory::OutOfMemory(Shortage shortage)
    : Error("out of memory", describe(shortage)), shortage_(std::move(shortage)) {}

OutOfMemory::OutOfMemory(const OutOfMemory& text, Shortage numbers) noexcept
    : Error(text), shortage_(std::move(numbers)) {}

const OutOfMemory* const OutOfMemory::plain_ = new OutOfMemory(
    "the device has no room, nor the program's own heap for the details of this message");

void raise_shortage(Shortage shortage, const LiveBuffers& live) {
  try {
    shortage.largest = largest_of(live);
    throw OutOfMemory(shortage);
  } catch (const std::bad_alloc&) {
    shortage.largest = {};
    throw OutOfMemory(*OutOfMemory::plain_, std::move(shortage));
  }
}

OutOfMemory OutOfMemory::with_remedies(std::vector<std::string> remedies) const {
  Shortage shortage = shortage_;
  shortage.remedies = std::move(remedies);
  return OutOfMemory(std::move(shortage));
}

}  // namespace brim::memory
