#include "brim/base/cuda/error.h"

#include <doctest/doctest.h>

#include "brim/base/cuda/last_op.h"

using namespace brim;

namespace {

// From driver_types.h; the numbers are part of CUDA's interface.
constexpr int kSuccess = 0, kInvalidValue = 1, kMemoryAllocation = 2;

}  // namespace

TEST_CASE("cuda error: success is silent, a failure names the call, the reason and its name") {
  CHECK_NOTHROW(cuda::check(kSuccess, "cudaMemcpyAsync"));
  CHECK_THROWS_WITH_AS(cuda::check(kInvalidValue, "cudaMemcpyAsync"),
                       "cuda: cudaMemcpyAsync failed: invalid argument (cudaErrorInvalidValue)",
                       DeviceError);
}

TEST_CASE(
    "cuda error: of a kernel that failed it is said that the context is lost, and what helps") {
  constexpr int kIllegalAddress = 700;
  CHECK_THROWS_WITH_AS(
      cuda::check(kIllegalAddress, "cudaStreamSynchronize"),
      doctest::Contains("cuda: cudaStreamSynchronize failed: an illegal memory access was "
                        "encountered (cudaErrorIllegalAddress); the program's context on the GPU "
                        "is lost"),
      DeviceError);
}

TEST_CASE("cuda error: of a kernel that failed the op is named that was enqueued last") {
  constexpr int kIllegalAddress = 700;
  const std::string module = "layer1.0.conv1";
  cuda::last_op = {"conv2d", &module};
  CHECK_THROWS_WITH_AS(
      cuda::check(kIllegalAddress, "cudaStreamSynchronize"),
      doctest::Contains("(cudaErrorIllegalAddress); found after conv2d in layer1.0.conv1 was "
                        "enqueued: the fault is its own or that of an op since the last wait"),
      DeviceError);
  cuda::last_op = {"relu", nullptr};
  CHECK_THROWS_WITH_AS(cuda::check(kIllegalAddress, "cudaStreamSynchronize"),
                       doctest::Contains("; found after relu was enqueued: "), DeviceError);
  cuda::last_op = {};
  CHECK_THROWS_WITH_AS(cuda::check(kInvalidValue, "cudaMemcpyAsync"),
                       "cuda: cudaMemcpyAsync failed: invalid argument (cudaErrorInvalidValue)",
                       DeviceError);
}

TEST_CASE("cuda error: want of memory is an error of its own, which launch can tell apart") {
  CHECK_THROWS_WITH_AS(cuda::check(kMemoryAllocation, "cudaStreamCreate"),
                       "cuda: cudaStreamCreate failed: out of memory (cudaErrorMemoryAllocation)",
                       cuda::AllocationError);
  CHECK_THROWS_AS(cuda::check(kInvalidValue, "cudaStreamCreate"), DeviceError);
  try {
    cuda::check(kInvalidValue, "cudaStreamCreate");
  } catch (const cuda::AllocationError&) {
    FAIL("an invalid argument is no want of memory");
  } catch (const DeviceError&) {
  }
}
