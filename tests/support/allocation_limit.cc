#include "brim/tests/support/allocation_limit.h"

#include <cstdio>
#include <cstdlib>

// Of the sanitizers' runtime; null where there is none.
extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*, size_t),
                                              void (*free_hook)(const volatile void*))
    __attribute__((weak));
size_t __sanitizer_get_allocated_size(const volatile void* block) __attribute__((weak));
}

namespace brim::testing {
namespace {

thread_local bool limited = false;
thread_local ptrdiff_t held = 0, limit = 0;  // held: below 0 where older blocks are freed

void on_malloc(const volatile void*, size_t bytes) {
  if (!limited) return;
  held += static_cast<ptrdiff_t>(bytes);
  if (held <= limit) return;
  limited = false;  // what prints may allocate
  std::fprintf(stderr, "%td bytes are held, %zu of them new; the limit is %td\n", held, bytes,
               limit);
  std::abort();
}

void on_free(const volatile void* block) {
  if (limited) held -= static_cast<ptrdiff_t>(__sanitizer_get_allocated_size(block));
}

}  // namespace

AllocationLimit::AllocationLimit(size_t bytes) {
  static const bool installed =
      __sanitizer_install_malloc_and_free_hooks != nullptr &&
      __sanitizer_install_malloc_and_free_hooks(&on_malloc, &on_free) != 0;
  held = 0;
  limit = static_cast<ptrdiff_t>(bytes);
  limited = installed;
}

AllocationLimit::~AllocationLimit() { limited = false; }

}  // namespace brim::testing
