// In every build, with the toolkit or without: either there is a device or the reason is given.
#include <doctest/doctest.h>

#include "brim/base/cuda/devices.h"
#include "brim/base/error.h"

using namespace brim;

TEST_CASE("cuda devices: either there is one or the reason is given") {
  CHECK(cuda::device_count() >= 0);
  CHECK(cuda::why_no_device().empty() == (cuda::device_count() > 0));
  if (!cuda::built()) CHECK(cuda::device_count() == 0);
  MESSAGE("built: " << cuda::built() << ", devices: " << cuda::device_count() << ", "
                    << cuda::why_no_device());
}

TEST_CASE("cuda devices: one that is not there is refused in one line, with the reason") {
  std::string why = cuda::why_no_device();
  if (why.empty()) why = "there ";  // ... are N GPUs
  CHECK_THROWS_WITH_AS(cuda::require_device("trainer", Device::cuda(999)),
                       doctest::Contains(("trainer: no device cuda:999: " + why).c_str()),
                       DeviceError);
  CHECK_THROWS_AS(cuda::DeviceScope{Device::cuda(999)}, DeviceError);
}

TEST_CASE("cuda devices: a scope of another device needs no CUDA") {
  CHECK_NOTHROW(cuda::DeviceScope{Device::cpu()});
  CHECK_NOTHROW(cuda::DeviceScope{Device::meta()});
}
