#include "brim/base/cuda/cublaslt.cuh"

#include <atomic>
#include <map>
#include <mutex>

#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/error.h"

namespace brim::cuda {
namespace {

std::atomic<const CublasLt*> given = nullptr;
std::mutex mutex;

std::map<int, cublasLtHandle_t>& handles() {
  static auto* handles = new std::map<int, cublasLtHandle_t>;
  return *handles;
}

}  // namespace

const CublasLt& cublaslt() {
  if (const CublasLt* table = given) return *table;
  static const CublasLt table = load_cublaslt();
  return table;
}

void set_cublaslt(const CublasLt* table) {
  std::lock_guard lock(mutex);
  given = table;
  handles().clear();
}

cublasLtHandle_t cublaslt_handle(Device device) {
  std::lock_guard lock(mutex);
  auto found = handles().find(device.index);
  if (found != handles().end()) return found->second;
  DeviceScope scope(device);
  cublasLtHandle_t handle = nullptr;
  check_cublas(cublaslt().create(&handle), "cublasLtCreate");
  return handles().emplace(device.index, handle).first->second;
}

void check_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::string text = fmt::format("{} failed: {} ({})", call, cublaslt().status_string(status),
                                 cublaslt().status_name(status));
  const bool may_want_memory =
      status == CUBLAS_STATUS_INTERNAL_ERROR || status == CUBLAS_STATUS_EXECUTION_FAILED;
  if (status == CUBLAS_STATUS_ALLOC_FAILED || (may_want_memory && is_nearly_full()))
    throw AllocationError("cublasLt", text);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) throw UnsupportedError("cublasLt", text);
  throw DeviceError("cublasLt", text);
}

}  // namespace brim::cuda
