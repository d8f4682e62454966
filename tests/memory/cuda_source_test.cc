#include "brim/memory/cuda_source.h"

#include <doctest/doctest.h>

#include "brim/base/cuda/devices.h"
#include "brim/base/error.h"
#include "brim/memory/account.h"
#include "brim/memory/out_of_memory.h"

using namespace brim;

TEST_CASE("cuda source: a GPU that is not there has no memory, and the reason is given") {
  std::string why = cuda::why_no_device();
  int missing = why.empty() ? 999 : 0;
  if (why.empty()) why = "there ";  // ... are N GPUs
  std::string text = fmt::format("memory: no device cuda:{}: {}", missing, why);
  CHECK_THROWS_WITH_AS(memory::CudaSource(Device::cuda(missing)), doctest::Contains(text.c_str()),
                       DeviceError);
  CHECK_THROWS_WITH_AS(memory::account(Device::cuda(missing)), doctest::Contains(text.c_str()),
                       DeviceError);
}

TEST_CASE("cuda source: serves the planners as any other, up to its capacity") {
  if (std::string why = cuda::why_no_device(); !why.empty()) {
    MESSAGE("skipped: the source on CUDA against the CPU (", why, ")");
    return;
  }
  for (const char* planner : {"direct", "caching"}) {
    memory::Account account(Device::cuda(), std::make_unique<memory::CudaSource>(Device::cuda()),
                            memory::planner_named(planner));
    CHECK(account.cap() > 0);
    memory::Block block = account.allocate(1000, memory::Category::other);
    CHECK(account.stats().live == 1024);
    CHECK_THROWS_AS(account.allocate(account.cap(), memory::Category::other), memory::OutOfMemory);
    account.release(block);
    account.empty_cache();
    CHECK(account.stats().reserved == 0);
  }
}
