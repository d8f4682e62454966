// A kernel that fails while it runs, long after it was enqueued: the call that finds it names the
// op that was enqueued last, and says that the context is lost. On an emulated GPU, told to be
// late.
#include <doctest/doctest.h>

#ifdef BRIM_EMULATED_GPU

#include <stdexcept>

#include "brim/base/error.h"
#include "brim/core/launch.h"
#include "brim/tests/support/cuda_emulator/threads.h"
#include "brim/tests/support/cuda_emulator/troubles.h"

using namespace brim;
namespace emulator = brim::cuda::emulator;

namespace {

constexpr Kernel<NoAttributes> broken{"test_broken"}, whole{"test_whole"};

void enter_kernels() {
  static const bool done = [] {
    register_kernel(broken, DeviceType::cuda, Dtype::float32,
                    [](const KernelCall& call, const NoAttributes&) {
                      emulator::enqueue(call.stream, [] { throw std::out_of_range("an address"); });
                    });
    register_kernel(
        whole, DeviceType::cuda, Dtype::float32,
        [](const KernelCall& call, const NoAttributes&) { emulator::enqueue(call.stream, [] {}); });
    return true;
  }();
  REQUIRE(done);
}

std::string text_of_failure(const Tensor& x) {
  try {
    x.to_vector<float>();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("cuda fault: the op that was enqueued last is named where the fault is found") {
  enter_kernels();
  static const std::string module = "layer1.0.conv1";
  Tensor x = zeros({4}, {.device = Device::cuda()});
  CHECK(text_of_failure(x) == "");
  emulator::LateScope late;
  {
    memory::SiteScope site({.op = "test_broken", .module = &module});
    launch(broken, {}, {x});
  }
  CHECK(emulator::work_left() > 0);  // nothing has failed yet
  const std::string text = text_of_failure(x);
  CAPTURE(text);
  CHECK(text.find("found after test_broken in layer1.0.conv1 was enqueued") != std::string::npos);
  CHECK(text.find("the program's context on the GPU is lost") != std::string::npos);
  CHECK(text_of_failure(x) != "");  // nor does anything work after it
}

TEST_CASE("cuda fault: of several ops since the last wait it is the last one that is named") {
  enter_kernels();
  Tensor x = zeros({4}, {.device = Device::cuda()});
  emulator::LateScope late;
  launch(broken, {}, {x});
  launch(whole, {}, {x});
  CHECK(text_of_failure(x).find("found after test_whole was enqueued: the fault is its own or that "
                                "of an op since the last wait") != std::string::npos);
}

#else

TEST_CASE("cuda fault: a kernel that fails late") {
  MESSAGE("skipped: faults of kernels (no emulated GPU)");
}

#endif
