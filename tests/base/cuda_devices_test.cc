#include <doctest/doctest.h>

#include "brim/base/cuda/devices.h"

TEST_CASE("cuda devices: either there is one or the reason is given") {
  CHECK(brim::cuda::device_count() >= 0);
  CHECK(brim::cuda::why_no_device().empty() == (brim::cuda::device_count() > 0));
  if (!brim::cuda::built()) CHECK(brim::cuda::device_count() == 0);
  MESSAGE("built: " << brim::cuda::built() << ", devices: " << brim::cuda::device_count() << ", "
                    << brim::cuda::why_no_device());
}
