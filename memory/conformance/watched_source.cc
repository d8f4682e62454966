#include "brim/memory/conformance/watched_source.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

namespace brim::memory::conformance {

WatchedSource::WatchedSource(int64_t capacity, const Pages& pages, Pieces pieces,
                             Returning returning)
    : Source(capacity, pages), pieces_(pieces), returning_(std::move(returning)) {}

WatchedSource::~WatchedSource() {
  for (void* memory : memory_) std::free(memory);
  if (has_bytes() && !pages().apart)
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
    address = std::aligned_alloc(static_cast<size_t>(pages().bytes), size);
    if (address == nullptr) return nullptr;
    if (pages().apart) memory_.push_back(address);
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

std::string WatchedSource::objection_to_pages(uintptr_t address, int64_t bytes) const {
  if (!holds(address, bytes))
    return fmt::format("gave back {} bytes at {:#x}, of which the source had not given all", bytes,
                       address);
  const auto page = static_cast<uintptr_t>(pages().bytes);
  if (address % page != 0 || static_cast<uintptr_t>(bytes) % page != 0)
    return fmt::format("gave back {} bytes at {:#x}, which are not pages of {}", bytes, address,
                       page);
  return returning_(address, bytes);
}

/// Whether a piece may go back: what is still used stays there.
bool WatchedSource::accept(std::string objection) noexcept {
  if (breach_.empty()) breach_ = objection;
  return objection.empty();
}

void WatchedSource::give_back(void* pointer, int64_t bytes) noexcept {
  auto address = reinterpret_cast<uintptr_t>(pointer);
  if (!accept(objection(address, bytes))) return;
  out_.erase(address);
  if (has_bytes() && !pages().apart) std::free(pointer);
}

void WatchedSource::give_back_pages(void* pointer, int64_t bytes) noexcept {
  auto address = reinterpret_cast<uintptr_t>(pointer);
  if (!accept(objection_to_pages(address, bytes))) return;
  auto piece = std::prev(out_.upper_bound(address));
  const auto [begin, size] = *piece;
  const uintptr_t end = begin + static_cast<uintptr_t>(size),
                  behind = address + static_cast<uintptr_t>(bytes);
  out_.erase(piece);
  if (begin < address) out_.emplace(begin, static_cast<int64_t>(address - begin));
  if (behind < end) out_.emplace(behind, static_cast<int64_t>(end - behind));
  if (has_bytes()) std::memset(pointer, 0xDB, static_cast<size_t>(bytes));
}

}  // namespace brim::memory::conformance
