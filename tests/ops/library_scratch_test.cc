// No kernel may allocate behind the account's back: malloc and its like are replaced here, and
// watched while convolutions and matrix products run a second time.
#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "brim/autograd/backward.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/linear.h"
#include "brim/ops/matmul.h"

namespace {

// Bookkeeping of a call (handles, argument lists) is below this; packed operands are far above.
constexpr size_t kSmall = 4096;
std::atomic<bool> watching = false;
std::atomic<size_t> largest = 0;

[[maybe_unused]] void note(size_t bytes) {
  if (!watching) return;
  size_t before = largest;
  while (before < bytes && !largest.compare_exchange_weak(before, bytes)) {
  }
}

}  // namespace

// The sanitizers replace them themselves.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define BRIM_WATCHES_MALLOC 1
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

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
#endif

namespace brim {
namespace {

/// Runs `work` twice, so that everything is compiled and cached, then watches a third run.
template <class Work>
size_t largest_allocation(const Work& work) {
  work();
  work();
  largest = 0;
  watching = true;
  work();
  watching = false;
  return largest;
}

Tensor leaf(const Shape& shape, uint64_t key) {
  return normal(shape, 1, RandomKey{key}).set_requires_grad();
}

void check_conv(const Shape& x_shape, const Shape& weight_shape, const Conv2dOptions& options,
                bool bias) {
  CAPTURE(to_string(x_shape));
  CAPTURE(to_string(weight_shape));
  Tensor x = leaf(x_shape, 1), weight = leaf(weight_shape, 2);
  Tensor b = bias ? leaf({weight_shape[0]}, 3) : Tensor();
  Tensor dy = normal(conv2d_shape(x_shape, weight_shape, options), 1, RandomKey{4});
  CHECK(largest_allocation([&] { backward(conv2d(x, weight, b, options), {.grad = dy}); }) <=
        kSmall);
}

}  // namespace

TEST_CASE("library scratch: malloc is watched") {
#ifdef BRIM_WATCHES_MALLOC
  CHECK(largest_allocation([] { std::free(std::malloc(100000)); }) == 100000);
#else
  MESSAGE("skipped: a sanitizer has replaced malloc");
#endif
}

TEST_CASE("library scratch: convolutions keep to theirs") {
  check_conv({2, 64, 64, 3}, {64, 7, 7, 3}, {.stride = 2, .padding = 3}, false);
  check_conv({2, 28, 28, 64}, {64, 3, 3, 64}, {.padding = 1}, true);
  check_conv({2, 28, 28, 64}, {96, 3, 3, 64}, {.stride = 2, .padding = 1}, false);
  check_conv({2, 28, 28, 64}, {256, 1, 1, 64}, {}, false);
  check_conv({2, 28, 28, 256}, {512, 1, 1, 256}, {.stride = 2}, false);
  check_conv({2, 7, 7, 512}, {2048, 1, 1, 512}, {}, true);
  check_conv({2, 28, 28, 30}, {50, 3, 3, 30}, {.padding = 1}, true);
  check_conv({2, 28, 28, 128}, {128, 3, 3, 4}, {.padding = 1, .groups = 32}, false);
  check_conv({2, 28, 28, 96}, {96, 3, 3, 1}, {.stride = 2, .padding = 1, .groups = 96}, true);
  check_conv({2, 28, 28, 96}, {96, 5, 5, 1}, {.padding = 2, .groups = 96}, false);
  check_conv({2, 28, 28, 24}, {24, 3, 3, 24}, {.padding = 2, .dilation = 2}, false);
}

TEST_CASE("library scratch: matrix products keep to theirs") {
  Tensor x = leaf({16, 2048}, 1), weight = leaf({1000, 2048}, 2), bias = leaf({1000}, 3);
  Tensor dy = normal({16, 1000}, 1, RandomKey{4});
  CHECK(largest_allocation([&] { backward(linear(x, weight, bias), {.grad = dy}); }) <= kSmall);
  Tensor a = leaf({4, 200, 300}, 1), b = leaf({300, 100}, 2);
  Tensor dc = normal({4, 200, 100}, 1, RandomKey{4});
  CHECK(largest_allocation([&] { backward(matmul(a, b), {.grad = dc}); }) <= kSmall);
}

}  // namespace brim
