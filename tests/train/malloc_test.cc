// No op asks malloc for more than 4 KiB behind the account's back, once it is warm. The test
// takes the place of malloc and looks.
#include <doctest/doctest.h>
#include <execinfo.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "brim/autograd/op.h"
#include "brim/nn/models/registry.h"
#include "brim/optim/sgd.h"
#include "brim/tests/train/small_net.h"
#include "brim/train/train_step.h"

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

constexpr size_t kLimit = 4096;
std::atomic<bool> armed = false;
std::atomic<size_t> largest = 0;
void* frames[24];
int frame_count = 0;

void note(size_t bytes) {
  if (bytes <= kLimit || !armed) return;
  size_t before = largest.load();
  if (bytes <= before || !largest.compare_exchange_strong(before, bytes)) return;
  armed = false;
  frame_count = backtrace(frames, 24);
  armed = true;
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
void* realloc(void* address, size_t bytes) {
  note(bytes);
  return __libc_realloc(address, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  note(bytes);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  note(bytes);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** result, size_t alignment, size_t bytes) {
  note(bytes);
  *result = __libc_memalign(alignment, bytes);
  return *result == nullptr ? ENOMEM : 0;
}
}

using namespace brim;
using namespace brim::testing;

namespace {

struct Armed {
  Armed() {
    void* warm[1];
    backtrace(warm, 1);  // its first call allocates
    largest = 0;
    armed = true;
  }
  ~Armed() { armed = false; }
};

void check_model(const std::string& name, int64_t size) {
  CAPTURE(name);
  auto model = nn::make_model(name, {.classes = 100, .seed = 1});
  optim::Sgd sgd(model->named_parameters(), {.momentum = 0.9});
  TrainStep step(*model, sgd);
  Problem problem = random_problem(4, size, 100);
  auto update = [&] {
    step.run(0.01, [&] { return cross_entropy((*model)(problem.images), problem.labels); });
  };
  auto evaluate = [&] {
    autograd::NoGradScope no_grad;
    model->eval();
    (*model)(problem.images);
    model->train();
  };
  for (int i = 0; i < 2; ++i) {
    update();
    evaluate();
  }
  {
    Armed watch;
    update();
    evaluate();
  }
  if (largest > 0) backtrace_symbols_fd(frames, frame_count, 2);
  CHECK(largest == 0);
}

}  // namespace

TEST_CASE("the watch sees a large allocation") {
  Armed watch;
  std::free(std::malloc(kLimit + 1));
  CHECK(largest == kLimit + 1);
}

TEST_CASE("training and evaluating allocate nothing large outside the account") {
  check_model("resnet20", 32);
  check_model("resnet18", 64);
  check_model("resnet50", 64);
  check_model("mobilenet_v1", 64);
  check_model("mobilenet_v2", 64);
}
