// The emulated GPU: it has no virtual memory, no library of NVIDIA's, and kernels that are loaded
// with the program.
#include "brim/base/cuda/context.h"
#include "brim/base/cuda/context_parts.h"
#include "brim/base/cuda/cublaslt.cuh"
#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/kernel_modules.h"
#include "brim/base/cuda/memory.h"
#include "brim/base/cuda/runtime_driver.h"

namespace brim::cuda {

std::shared_ptr<Driver> driver_of(Device device) {
  require_device("cuda", device);
  return std::make_shared<RuntimeDriver>(device);
}

std::optional<int64_t> free_without_context(Device device) { return memory_info(device).free; }

void open_libraries(Device) {}

std::string kernels_to_compile(Device) { return ""; }

CublasLt load_cublaslt() {
  raise<MissingLibraryError>("cuda", "an emulated GPU has no cuBLASLt but that of a test");
}

/// One of each file.
LoadedKernels load_kernels(Device) {
  LoadedKernels files;
  for (const KernelModule* file = KernelModule::first; file != nullptr; file = file->next)
    ++files.count;
  return files;
}

}  // namespace brim::cuda
