#include "brim/memory/live_ranges.h"

#include "brim/base/error.h"

namespace brim::memory {
namespace {

uintptr_t begin(const LiveBuffer& buffer) { return reinterpret_cast<uintptr_t>(buffer.address); }
uintptr_t end(const LiveBuffer& buffer) {
  return begin(buffer) + static_cast<uintptr_t>(buffer.bytes);
}

std::string describe(const LiveBuffer& buffer) {
  std::string text =
      fmt::format("buffer {} ({} bytes of {}", buffer.id, buffer.bytes, to_string(buffer.category));
  if (*buffer.site.op != '\0') text += fmt::format(", {}", buffer.site.op);
  if (!buffer.site.path().empty()) text += fmt::format(" in {}", buffer.site.path());
  return text + fmt::format(") at {:#x}", begin(buffer));
}

}  // namespace

void LiveRanges::add(const LiveBuffer& buffer, std::string_view planner) {
  auto refuse = [&](const LiveBuffer& other) {
    raise<InternalError>("memory", "the {} planner placed {}, over {}, which is held", planner,
                         describe(buffer), describe(other));
  };
  auto next = by_address_.lower_bound(begin(buffer));
  if (next != by_address_.end() && next->first < end(buffer)) refuse(*next->second);
  if (next != by_address_.begin())
    if (auto before = std::prev(next); end(*before->second) > begin(buffer))
      refuse(*before->second);
  by_address_.emplace_hint(next, begin(buffer), &buffer);
}

void LiveRanges::remove(const LiveBuffer& buffer) noexcept {
  if (holds(buffer.address, &buffer)) by_address_.erase(begin(buffer));
}

void LiveRanges::rekey() noexcept {
  std::map<uintptr_t, const LiveBuffer*> before;
  before.swap(by_address_);
  while (!before.empty()) {
    auto node = before.extract(before.begin());  // goes on to be used: there may be no heap
    node.key() = begin(*node.mapped());
    by_address_.insert(std::move(node));
  }
}

bool LiveRanges::holds(const void* address, const LiveBuffer* buffer) const noexcept {
  auto found = by_address_.find(reinterpret_cast<uintptr_t>(address));
  return found != by_address_.end() && found->second == buffer;
}

}  // namespace brim::memory
