#include "brim/tests/malloc/malloc_watch.h"

#include <execinfo.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

using brim::testing::kSmallAllocation;

std::atomic<bool> watching = false;
std::atomic<size_t> largest_request = 0;
void* frames[24];
int frame_count = 0;

void note(size_t bytes) {
  if (bytes <= kSmallAllocation || !watching) return;
  size_t before = largest_request;
  if (bytes <= before || !largest_request.compare_exchange_strong(before, bytes)) return;
  watching = false;  // backtrace may allocate
  frame_count = backtrace(frames, 24);
  watching = true;
}

}  // namespace

extern "C" {
void* malloc(size_t bytes) {
  note(bytes);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  note(count * bytes);
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  note(bytes);
  return __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  note(bytes);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** to, size_t alignment, size_t bytes) {
  void* memory = memalign(alignment, bytes);
  if (memory == nullptr) return ENOMEM;
  *to = memory;
  return 0;
}
}

namespace brim::testing {

MallocWatch::MallocWatch() {
  void* warm[1];
  backtrace(warm, 1);  // its first call allocates
  largest_request = 0;
  watching = true;
}

MallocWatch::~MallocWatch() { watching = false; }

size_t MallocWatch::largest() const { return largest_request; }

void MallocWatch::print_caller() const { backtrace_symbols_fd(frames, frame_count, 2); }

}  // namespace brim::testing
