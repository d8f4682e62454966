// The build without the CUDA toolkit.

#include "brim/base/cuda/devices.h"

namespace brim::cuda {

bool built() { return false; }

int device_count() { return 0; }

std::string why_no_device() { return "brim was built without the CUDA toolkit"; }

}  // namespace brim::cuda
