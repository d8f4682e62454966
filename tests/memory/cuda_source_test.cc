#include "brim/memory/cuda_source.h"

#include <doctest/doctest.h>

#include <vector>

#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/memory.h"
#include "brim/base/error.h"
#include "brim/memory/account.h"
#include "brim/memory/out_of_memory.h"

using namespace brim;

TEST_CASE("cuda source: a GPU that is not there has no memory, and the reason is given") {
  std::string why = cuda::why_no_device();
  int missing = why.empty() ? 999 : 0;
  if (why.empty()) why = "there ";  // ... are N GPUs
  std::string text = fmt::format("memory: no device cuda:{}: {}", missing, why);
  CHECK_THROWS_WITH_AS(memory::cuda_source(Device::cuda(missing)), doctest::Contains(text.c_str()),
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
    memory::Account account(Device::cuda(), memory::cuda_source(Device::cuda()),
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

TEST_CASE("cuda source: what is held moves to another planner with its values") {
  if (std::string why = cuda::why_no_device(); !why.empty()) {
    MESSAGE("skipped: a move on CUDA (", why, ")");
    return;
  }
  const Device gpu = Device::cuda();
  memory::Account account(gpu, memory::cuda_source(gpu),
                          memory::planner_named("caching"));
  std::vector<memory::Block> blocks;
  std::vector<std::vector<char>> values;
  for (int i = 1; i <= 8; ++i) {
    blocks.push_back(account.allocate(i * 100'000, memory::Category::parameters));
    values.emplace_back(static_cast<size_t>(blocks.back().bytes), static_cast<char>(i));
    cuda::copy_to_device(gpu, blocks.back().address(), values.back().data(), blocks.back().bytes);
  }
  const int64_t live = account.stats().live;
  account.set_cap(live);
  for (int move = 0; move < 2; ++move) {
    account.replan(memory::planner_named("direct"));
    CHECK(account.stats().reserved == live);
    for (size_t i = 0; i < blocks.size(); ++i) {
      std::vector<char> got(values[i].size());
      cuda::copy_to_host(gpu, got.data(), blocks[i].address(), blocks[i].bytes);
      CHECK(got == values[i]);
    }
  }
  for (const memory::Block& block : blocks) account.release(block);
}
