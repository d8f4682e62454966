#include "brim/memory/source.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "brim/base/error.h"
#include "brim/base/stand_in.h"

namespace brim::memory {
namespace {
constexpr int64_t kMapFrom = int64_t{4} << 20;
}  // namespace

bool Source::has_room(int64_t bytes) {
  check(bytes > 0 && bytes % pages_.bytes == 0, "a source is asked for whole pages");
  if (stranded_ > 0) recover();
  return bytes <= capacity_ - used_ - stranded_;
}

void* Source::note_taken(void* address, int64_t bytes) {
  if (address == nullptr) return nullptr;
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return address;
}

void* Source::allocate(int64_t bytes) {
  return has_room(bytes) ? note_taken(take(bytes), bytes) : nullptr;
}

void* Source::allocate_pages(int64_t bytes) {
  check(pages_.apart, "pages are taken of a source that has them apart");
  return has_room(bytes) ? note_taken(take_pages(bytes), bytes) : nullptr;
}

void Source::deallocate_pages(void* address, int64_t bytes) noexcept {
  give_back_pages(address, bytes);
  used_ -= bytes;
}

void Source::deallocate(void* address, int64_t bytes) noexcept {
  give_back(address, bytes);
  used_ -= bytes;
}

void Source::copy_to_host(void* to, const void* from, int64_t bytes) {
  std::memcpy(to, from, static_cast<size_t>(bytes));
}

void Source::copy_from_host(void* to, const void* from, int64_t bytes) {
  std::memcpy(to, from, static_cast<size_t>(bytes));
}

void* HostSource::take(int64_t bytes) {
  auto size = static_cast<size_t>(bytes);
  if (bytes < kMapFrom) return std::aligned_alloc(static_cast<size_t>(kAlignment), size);
  void* address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  madvise(address, size, MADV_HUGEPAGE);  // a wish: the mapping is right without it
  return address;
}

void HostSource::give_back(void* address, int64_t bytes) noexcept {
  if (bytes < kMapFrom)
    std::free(address);
  else
    munmap(address, static_cast<size_t>(bytes));
}

namespace {

Pages stand_in_pages() {
  const int64_t bytes = stand_in().page_bytes;
  return bytes == 0 ? Pages{} : Pages{.bytes = bytes, .apart = true};
}

}  // namespace

NullSource::NullSource(int64_t capacity) : Source(capacity, stand_in_pages()) {}

void* NullSource::take(int64_t bytes) {
  void* address = reinterpret_cast<void*>(next_);
  next_ += static_cast<uintptr_t>(bytes);
  return address;
}

}  // namespace brim::memory
