// Streams and events: without a GPU they are refused, and the reason given.
#include "brim/base/cuda/stream.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>
#include <vector>

#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/driver.h"
#include "brim/base/cuda/event.h"
#include "brim/base/cuda/memory.h"
#include "brim/base/error.h"
#include "brim/tests/support/cuda_skip.h"

using namespace brim;

static_assert(std::is_nothrow_move_constructible_v<cuda::Stream>);
static_assert(!std::is_copy_constructible_v<cuda::Stream>);
static_assert(std::is_nothrow_move_constructible_v<cuda::Event>);
static_assert(!std::is_copy_constructible_v<cuda::Event>);

namespace {

// Says so and returns true where there is no GPU.
}  // namespace

TEST_CASE("cuda stream: a GPU that is not there is refused") {
  for (Device device : {Device::cuda(999), Device::cuda(cuda::device_count())}) {
    CHECK_THROWS_AS(cuda::Stream{device}, DeviceError);
    CHECK_THROWS_AS(cuda::default_stream(device), DeviceError);
    CHECK_THROWS_AS(cuda::Event{device}, DeviceError);
    CHECK_THROWS_AS(cuda::driver_of(device), DeviceError);
    CHECK_THROWS_AS(cuda::memory_info(device), DeviceError);
  }
}

TEST_CASE("cuda stream: bytes go to the device and come back") {
  if (testing::skipped_on_cuda("streams")) return;
  Device device = Device::cuda();
  std::vector<int32_t> sent(1000, 7), received(1000);
  auto bytes = static_cast<int64_t>(sent.size() * sizeof(int32_t));
  const std::shared_ptr<cuda::Driver> driver = cuda::driver_of(device);
  uintptr_t memory = 0;
  REQUIRE(driver->allocate(&memory, bytes) == 0);
  void* address = reinterpret_cast<void*>(memory);
  cuda::copy_to_device(device, address, sent.data(), bytes);
  cuda::copy_to_host(device, received.data(), address, bytes);
  CHECK(driver->free(memory) == 0);
  CHECK(received == sent);
}

TEST_CASE("cuda event: done once its stream is, and ordered in time") {
  if (testing::skipped_on_cuda("events")) return;
  Device device = Device::cuda();
  cuda::Stream first(device), second(device);
  cuda::Event begin(device, {.timed = true}), end(device, {.timed = true});
  begin.record(first);
  second.wait(begin);
  end.record(second);
  second.synchronize();
  CHECK(begin.is_done());
  CHECK(end.is_done());
  CHECK(cuda::seconds_between(begin, end) >= 0);
}
