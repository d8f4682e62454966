#include "brim/base/cuda/devices.h"

#include <cuda_runtime_api.h>

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

}  // namespace

bool built() { return true; }

int device_count() { return probe().count; }

std::string why_no_device() {
  const Probe result = probe();
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) return "no driver is installed";
  if (result.error != cudaSuccess) return cudaGetErrorString(result.error);
  return result.count == 0 ? "the driver found no GPU" : "";
}

}  // namespace brim::cuda
