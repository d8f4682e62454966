#include "brim/base/cuda/context.h"

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <utility>

#include "brim/base/cuda/context_parts.h"
#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/error.h"
#include "brim/base/cuda/kernel_modules.h"

namespace brim::cuda {
namespace {

std::mutex mutex;

/// Of those that are open.
std::map<int, Context>& contexts() {
  static auto* contexts = new std::map<int, Context>;
  return *contexts;
}

Context open(Device device, const std::function<void()>& warm_up) {
  require_device("cuda", device);
  const std::optional<int64_t> before = free_without_context(device);
  DeviceScope scope(device);
  Context context;
  try {
    check(cudaFree(nullptr), "cudaFree");  // opens the context
    LoadedKernels loaded = load_kernels(device);
    context.kernels = loaded.count;
    context.kernels_failure = std::move(loaded.failure);
    open_libraries(device);
    if (warm_up) leave_to_ops(warm_up);
  } catch (const AllocationError& error) {
    raise<DeviceError>("cuda", "{} has too little free memory for the runtime's context: {}",
                       device, error.what());
  }
  const std::optional<int64_t> after = free_without_context(device);
  if (!before || !after) return context;
  context.bytes = *before > *after ? *before - *after : 0;
  context.is_measured = true;
  context.free_before = *before;
  return context;
}

}  // namespace

const Context& open_context(Device device, const std::function<void()>& warm_up) {
  std::lock_guard lock(mutex);
  auto found = contexts().find(device.index);
  if (found == contexts().end())
    found = contexts().emplace(device.index, open(device, warm_up)).first;
  return found->second;
}

std::optional<int64_t> context_growth(Device device, int64_t reserved) {
  std::lock_guard lock(mutex);
  auto found = contexts().find(device.index);
  if (found == contexts().end() || !found->second.is_measured) return {};
  const std::optional<int64_t> free = free_without_context(device);
  if (!free) return {};
  return found->second.free_before - *free - reserved - found->second.bytes;
}

}  // namespace brim::cuda
