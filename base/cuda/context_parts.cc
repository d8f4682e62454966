#include "brim/base/cuda/context_parts.h"

#include <cuda_runtime_api.h>

#include <array>

#include "brim/base/cuda/cublaslt.cuh"
#include "brim/base/cuda/cudnn.cuh"
#include "brim/base/cuda/library.h"

namespace brim::cuda {
namespace {

/// NVML's calls that tell of a GPU's memory without a context there. As in nvml.h, which comes
/// apart from the toolkit.
struct Nvml {
  struct Memory {
    unsigned long long total, free, used;
  };
  int (*initialize)();
  int (*device_by_bus)(const char* bus, void** device);
  int (*memory)(void* device, Memory* memory);
};

Nvml load_nvml() {
  Library library("libnvidia-ml.so.1");
  Nvml table{};
  library.bind(table.initialize, "nvmlInit_v2");
  library.bind(table.device_by_bus, "nvmlDeviceGetHandleByPciBusId_v2");
  library.bind(table.memory, "nvmlDeviceGetMemoryInfo");
  return table;
}

}  // namespace

std::optional<int64_t> free_without_context(Device device) {
  try {
    static const Nvml nvml = load_nvml();
    constexpr int kSuccess = 0;
    std::array<char, 32> bus{};
    void* handle = nullptr;
    Nvml::Memory memory{};
    if (cudaDeviceGetPCIBusId(bus.data(), bus.size(), device.index) != cudaSuccess ||
        nvml.initialize() != kSuccess || nvml.device_by_bus(bus.data(), &handle) != kSuccess ||
        nvml.memory(handle, &memory) != kSuccess)
      return {};
    return static_cast<int64_t>(memory.free);
  } catch (const DeviceError&) {
    return {};
  }
}

void open_libraries(Device device) {
  leave_to_ops([&] { cublaslt_handle(device); });
  leave_to_ops([&] { cudnn_handle(device); });
}

}  // namespace brim::cuda
