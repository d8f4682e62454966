#include "brim/base/cuda/devices.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

#include "brim/base/cuda/error.h"

namespace brim::cuda {
namespace {

struct Probe {
  cudaError_t error;
  int count;
};

Probe probe() {
  Probe result{cudaSuccess, 0};
  result.error = cudaGetDeviceCount(&result.count);
  if (result.error != cudaSuccess) {
    cudaGetLastError();  // or the next call that checks would report this one
    result.count = 0;    // unspecified after an error
  }
  return result;
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string too_old(int driver) {
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  return fmt::format("the driver is too old: it is for CUDA {}, and brim was built with {}",
                     version_text(driver), version_text(runtime));
}

}  // namespace

bool built() { return true; }

int device_count() { return probe().count; }

std::string why_no_device() {
  const Probe result = probe();
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) return "no driver is installed";
  if (result.error == cudaErrorInsufficientDriver) return too_old(driver);
  if (result.error != cudaSuccess) return cudaGetErrorString(result.error);
  return result.count == 0 ? "the driver found no GPU" : "";
}

void require_device(const char* tag, Device device) {
  std::string why = why_no_device();
  int count = device_count();
  if (why.empty() && device.index >= count)
    why = count == 1 ? "there is one GPU, cuda:0" : fmt::format("there are {} GPUs", count);
  expect<DeviceError>(why.empty(), tag, "no device {}: {}", device, why);
}

namespace {

// A bit for each GPU that was current in a scope. To make one current opens a context there, of
// hundreds of megabytes: no thread goes back to one that nobody used.
std::atomic<uint64_t> used = 0;

uint64_t bit_of(int index) { return uint64_t{1} << (index & 63); }

}  // namespace

DeviceScope::DeviceScope(Device device) {
  if (!device.is_cuda()) return;
  int before = 0;
  check(cudaGetDevice(&before), "cudaGetDevice");
  check(cudaSetDevice(device.index), "cudaSetDevice");
  used |= bit_of(device.index);
  if ((used & bit_of(before)) != 0) before_ = before;
}

DeviceScope::~DeviceScope() {
  if (before_ >= 0) cudaSetDevice(before_);
}

}  // namespace brim::cuda
