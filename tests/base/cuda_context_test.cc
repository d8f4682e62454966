// What a program says of a GPU that it cannot use, and how it measures what the context holds: on
// an emulated one, that can be told to have an old driver, no room, or others who take some.
#include <doctest/doctest.h>

#ifdef BRIM_EMULATED_GPU

#include "brim/base/cuda/context.h"
#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/error.h"
#include "brim/base/error.h"
#include "brim/tests/support/cuda_emulator/troubles.h"

using namespace brim;

TEST_CASE("cuda context: a driver that is too old is named with what brim was built with") {
  cuda::emulator::set_driver(12040);
  const std::string why =
      "the driver is too old: it is for CUDA 12.4, and brim was built with 13.0";
  CHECK(cuda::why_no_device() == why);
  CHECK_THROWS_WITH_AS(cuda::open_context(Device::cuda()),
                       ("cuda: no device cuda:0: " + why).c_str(), DeviceError);
  cuda::emulator::set_driver(13000);
  CHECK(cuda::why_no_device().empty());
}

TEST_CASE("cuda context: a GPU without room for it is named, and may be tried again") {
  cuda::emulator::refuse_context(true);
  CHECK_THROWS_WITH_AS(
      cuda::open_context(Device::cuda()),
      doctest::Contains("cuda: cuda:0 has too little free memory for the runtime's context: "),
      DeviceError);
  cuda::emulator::refuse_context(false);
  CHECK_FALSE(cuda::context_growth(Device::cuda(), 0));  // there is none yet
  // What fails while it warms up would stay, and be put on another op.
  CHECK_THROWS_WITH_AS(
      cuda::open_context(Device::cuda(), [] { raise<DeviceError>("cuda", "a kernel failed"); }),
      "cuda: a kernel failed", DeviceError);
  int warmed = 0;
  const cuda::Context context = cuda::open_context(Device::cuda(), [&] {
    ++warmed;
    raise<cuda::MissingLibraryError>("cudnn", "is not there");
  });
  CHECK(context.is_measured);
  CHECK(context.bytes == 0);
  cuda::open_context(Device::cuda(), [&] { ++warmed; });
  CHECK(warmed == 1);
}

TEST_CASE("cuda context: what it grows by is what is gone and no tensor's") {
  cuda::open_context(Device::cuda());
  CHECK(cuda::context_growth(Device::cuda(), 0) == 0);
  cuda::emulator::set_others(3 << 20);
  CHECK(cuda::context_growth(Device::cuda(), 0) == 3 << 20);
  CHECK(cuda::context_growth(Device::cuda(), 1 << 20) == 2 << 20);
  cuda::emulator::set_others(0);
  CHECK(cuda::context_growth(Device::cuda(), 0) == 0);
}

#else

TEST_CASE("cuda context: what is said of a GPU that cannot be used") {
  MESSAGE("skipped: contexts (no emulated GPU)");
}

#endif
