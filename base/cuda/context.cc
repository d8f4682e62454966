#include "brim/base/cuda/context.h"

#include <cuda_runtime_api.h>

#include <array>
#include <map>
#include <mutex>
#include <optional>

#include "brim/base/cuda/cublaslt.cuh"
#include "brim/base/cuda/cudnn.cuh"
#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/error.h"
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

/// Of the GPU; nothing where NVML does not tell.
std::optional<int64_t> free_bytes(Device device) {
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

template <class Open>
void open_if_there(const Open& open) {
  try {
    open();
  } catch (const AllocationError&) {
    throw;
  } catch (const DeviceError&) {  // an op that wants it says so
  }
}

Context open(Device device) {
  require_device("cuda", device);
  const std::optional<int64_t> before = free_bytes(device);
  DeviceScope scope(device);
  try {
    check(cudaFree(nullptr), "cudaFree");  // opens the context
    open_if_there([&] { cublaslt_handle(device); });
    open_if_there([&] { cudnn_handle(device); });
  } catch (const AllocationError& error) {
    raise<DeviceError>("cuda", "{} has too little free memory for the runtime's context: {}",
                       to_string(device), error.what());
  }
  const std::optional<int64_t> after = free_bytes(device);
  if (!before || !after) return {};
  return {.bytes = *before > *after ? *before - *after : 0, .is_measured = true};
}

}  // namespace

const Context& open_context(Device device) {
  static std::mutex mutex;
  static auto* contexts = new std::map<int, Context>;
  std::lock_guard lock(mutex);
  auto found = contexts->find(device.index);
  if (found == contexts->end()) found = contexts->emplace(device.index, open(device)).first;
  return found->second;
}

}  // namespace brim::cuda
