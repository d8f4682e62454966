// What this build and this machine can do with CUDA.
//
// Safe to call anywhere: without toolkit, driver or GPU the count is 0, and why_no_device()
// says which of them is missing. For the CPU and the meta device there is nothing to ask.

#pragma once

#include <string>

#include "brim/base/device.h"

namespace brim::cuda {

/// True where brim was compiled with the CUDA toolkit.
bool built();

/// The number of GPUs that CUDA can use; 0 where there is no toolkit, no driver or no GPU.
int device_count();

/// One clause that explains a device_count() of 0; empty where there is a device.
std::string why_no_device();

/// Throws `DeviceError` under `tag`, with the reason, unless CUDA can use this GPU.
void require_device(const char* tag, Device device);

/// Makes a GPU the one that this thread's calls go to, until the scope ends. Other devices need
/// none: for those it does nothing.
class DeviceScope {
 public:
  explicit DeviceScope(Device device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = -1;
};

}  // namespace brim::cuda
