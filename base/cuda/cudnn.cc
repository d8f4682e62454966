#include "brim/base/cuda/cudnn.cuh"

#include <array>
#include <atomic>
#include <map>
#include <mutex>

#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/error.h"
#include "brim/base/cuda/library.h"
#include "brim/base/cuda/stream.h"

namespace brim::cuda {
namespace {

constexpr const char* kFile = "libcudnn.so.9";

std::atomic<const Cudnn*> given = nullptr;

Cudnn load() {
  Library library(kFile);
  Cudnn table{};
  library.bind(table.version, "cudnnGetVersion");
  library.bind(table.create, "cudnnCreate");
  library.bind(table.set_stream, "cudnnSetStream");
  library.bind(table.error_string, "cudnnGetErrorString");
  library.bind(table.last_error_string, "cudnnGetLastErrorString");
  library.bind(table.create_descriptor, "cudnnBackendCreateDescriptor");
  library.bind(table.destroy_descriptor, "cudnnBackendDestroyDescriptor");
  library.bind(table.set_attribute, "cudnnBackendSetAttribute");
  library.bind(table.get_attribute, "cudnnBackendGetAttribute");
  library.bind(table.finalize, "cudnnBackendFinalize");
  library.bind(table.execute, "cudnnBackendExecute");
  constexpr size_t kLeast = 90800;  // describes GPUs
  expect<MissingLibraryError>(table.version() >= kLeast, "cuda",
                              "{} is cuDNN {}, and brim wants 9.8 or later ({})", kFile,
                              table.version(), kLeast);
  return table;
}

}  // namespace

const Cudnn& cudnn() {
  if (const Cudnn* table = given) return *table;
  static const Cudnn table = load();
  return table;
}

void set_cudnn(const Cudnn* table) { given = table; }

cudnnHandle_t cudnn_handle(Device device) {
  static std::mutex mutex;
  static auto* handles = new std::map<int, cudnnHandle_t>;
  std::lock_guard lock(mutex);
  auto found = handles->find(device.index);
  if (found != handles->end()) return found->second;
  DeviceScope scope(device);
  cudnnHandle_t handle = nullptr;
  check_cudnn(cudnn().create(&handle), "cudnnCreate");
  check_cudnn(cudnn().set_stream(handle, default_stream(device).handle()), "cudnnSetStream");
  return handles->emplace(device.index, handle).first->second;
}

bool is_unsupported(cudnnStatus_t status) {
  return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED;
}

namespace {

bool is_allocation_failure(cudnnStatus_t status) {
  return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
         status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

// What the driver's refusal to load a kernel becomes.
bool may_want_memory(cudnnStatus_t status) {
  return status == CUDNN_STATUS_INTERNAL_ERROR || status == CUDNN_STATUS_EXECUTION_FAILED ||
         status == CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER;
}

}  // namespace

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 512> detail{};
  cudnn().last_error_string(detail.data(), detail.size());
  std::string text = fmt::format("{} failed: {}", call, cudnn().error_string(status));
  if (detail[0] != '\0') text += fmt::format(" ({})", detail.data());
  if (is_allocation_failure(status) || (may_want_memory(status) && is_nearly_full()))
    throw AllocationError("cudnn", text);
  if (is_unsupported(status)) throw UnsupportedError("cudnn", text);
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_BAD_PARAM)
    throw BadParameterError("cudnn", text);
  throw DeviceError("cudnn", text);
}

}  // namespace brim::cuda
