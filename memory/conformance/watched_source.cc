#include "brim/memory/conformance/watched_source.h"

#include <fmt/format.h>

#include <cstdlib>

namespace brim::memory::conformance {

WatchedSource::WatchedSource(int64_t capacity, Pieces pieces, Returning returning)
    : Source(capacity), pieces_(pieces), returning_(std::move(returning)) {}

WatchedSource::~WatchedSource() {
  if (has_bytes())
    for (const auto& [address, bytes] : out_) std::free(reinterpret_cast<void*>(address));
}

bool WatchedSource::holds(uintptr_t address, int64_t bytes) const {
  auto after = out_.upper_bound(address);
  if (after == out_.begin()) return false;
  auto [begin, size] = *std::prev(after);
  return address - begin + static_cast<uintptr_t>(bytes) <= static_cast<uintptr_t>(size);
}

void* WatchedSource::take(int64_t bytes) {
  auto size = static_cast<uintptr_t>(bytes);
  void* address = nullptr;
  if (has_bytes()) {
    address = std::aligned_alloc(static_cast<size_t>(kAlignment), size);
    if (address == nullptr) return nullptr;
  } else if (pieces_ == Pieces::ascending) {
    address = reinterpret_cast<void*>(up_);
    up_ += size;
  } else {
    address = reinterpret_cast<void*>(down_ -= size);
  }
  out_.emplace(reinterpret_cast<uintptr_t>(address), bytes);
  return address;
}

std::string WatchedSource::objection(uintptr_t address, int64_t bytes) const {
  auto found = out_.find(address);
  if (found == out_.end())
    return fmt::format("gave back {} bytes at {:#x}, which the source had not given", bytes,
                       address);
  if (found->second != bytes)
    return fmt::format("gave back {} bytes at {:#x}, of which it had taken {}", bytes, address,
                       found->second);
  return returning_(address, bytes);
}

void WatchedSource::give_back(void* pointer, int64_t bytes) noexcept {
  auto address = reinterpret_cast<uintptr_t>(pointer);
  if (std::string why = objection(address, bytes); !why.empty()) {
    if (breach_.empty()) breach_ = why;
    return;  // what is still used stays there
  }
  out_.erase(address);
  if (has_bytes()) std::free(pointer);
}

}  // namespace brim::memory::conformance
