// The build without the CUDA toolkit: nothing to enter.
#include "brim/base/cuda/devices.h"
#include "brim/ops/cuda/engine_kind.h"
#include "brim/ops/cuda/register.h"
#include "brim/ops/cuda/warm_up.h"

namespace brim::cuda {

bool register_kernels() { return true; }

void warm_up(Device device, std::span<const Dtype>) { require_device("cuda", device); }

std::string engine_kind(Device) { return ""; }

std::string properties_json(Device device) {
  require_device("cuda", device);
  return "";
}

}  // namespace brim::cuda
