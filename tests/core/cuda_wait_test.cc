// With BRIM_CUDA_WAIT=1 an op waits for its kernels, so that its own error is what ends it. A
// program of its own: the variable is read once. On an emulated GPU, told to be late.
#include <doctest/doctest.h>

#ifdef BRIM_EMULATED_GPU

#include <cstdlib>
#include <stdexcept>

#include "brim/base/error.h"
#include "brim/core/launch.h"
#include "brim/tests/support/cuda_emulator/threads.h"
#include "brim/tests/support/cuda_emulator/troubles.h"

using namespace brim;
namespace emulator = brim::cuda::emulator;

namespace {

const bool asked = ::setenv("BRIM_CUDA_WAIT", "1", /*overwrite=*/1) == 0;

constexpr Kernel<NoAttributes> broken{"test_broken"}, whole{"test_whole"};

}  // namespace

TEST_CASE("cuda wait: nothing is left to do when an op returns, and an error has its name") {
  REQUIRE(asked);
  register_kernel(broken, DeviceType::cuda, Dtype::float32,
                  [](const KernelCall& call, const NoAttributes&) {
                    emulator::enqueue(call.stream, [] { throw std::out_of_range("an address"); });
                  });
  register_kernel(
      whole, DeviceType::cuda, Dtype::float32,
      [](const KernelCall& call, const NoAttributes&) { emulator::enqueue(call.stream, [] {}); });
  Tensor x = zeros({4}, {.device = Device::cuda()});
  emulator::LateScope late;
  launch(whole, {}, {x});
  CHECK(emulator::work_left() == 0);
  std::string text;
  try {
    launch(broken, {}, {x});
  } catch (const DeviceError& error) {
    text = error.what();
  }
  CAPTURE(text);
  CHECK(text.starts_with("test_broken: a kernel of it failed on cuda:0: "));
}

#else

TEST_CASE("cuda wait: an op waits for its kernels") {
  MESSAGE("skipped: ops that wait (no emulated GPU)");
}

#endif
