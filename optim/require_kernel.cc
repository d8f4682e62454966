#include "brim/optim/require_kernel.h"

#include "brim/base/error.h"
#include "brim/base/stand_in.h"
#include "brim/optim/register_kernels.h"

namespace brim::optim {

void require_kernel(const char* tag, std::string_view kernel, Device device, Dtype dtype) {
  if (has_kernel(kernel, device_meant(device).type, dtype)) return;
  raise<DeviceError>(tag, "cannot run on {}: there is no kernel '{}' for {}", device, kernel,
                     dtype);
}

}  // namespace brim::optim
