#include "brim/tests/heap/failing_heap.h"

#include <cstdlib>
#include <new>

namespace brim::testing {
namespace {

constexpr int64_t kNever = -1;

thread_local int64_t left = kNever;  // that still succeed
thread_local bool stays_full = false, refused = false;

void* take_or_null(size_t bytes) noexcept {
  bool full = left == 0;
  if (left >= 0 && !(full && stays_full)) --left;
  refused = refused || full;
  return full ? nullptr : std::malloc(bytes);
}

void* take(size_t bytes) {
  void* memory = take_or_null(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

HeapFault::HeapFault(int64_t nth, Options options) {
  stays_full = options.stays;
  refused = false;
  left = nth - 1;
}

HeapFault::~HeapFault() { left = kNever; }

bool HeapFault::struck() const { return refused; }

}  // namespace brim::testing

void* operator new(size_t bytes) { return brim::testing::take(bytes); }
void* operator new[](size_t bytes) { return brim::testing::take(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return brim::testing::take_or_null(bytes);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return brim::testing::take_or_null(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
