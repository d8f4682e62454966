#include "brim/base/cuda/cublaslt.cuh"

#include <map>
#include <mutex>

#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/error.h"
#include "brim/base/cuda/library.h"

namespace brim::cuda {
namespace {

CublasLt load() {
  Library library("libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR));
  CublasLt table{};
  library.bind(table.create, "cublasLtCreate");
  library.bind(table.status_name, "cublasLtGetStatusName");
  library.bind(table.status_string, "cublasLtGetStatusString");
  library.bind(table.matmul, "cublasLtMatmul");
  library.bind(table.matmul_algo_get_heuristic, "cublasLtMatmulAlgoGetHeuristic");
  library.bind(table.matmul_desc_create, "cublasLtMatmulDescCreate");
  library.bind(table.matmul_desc_destroy, "cublasLtMatmulDescDestroy");
  library.bind(table.matmul_desc_set_attribute, "cublasLtMatmulDescSetAttribute");
  library.bind(table.matmul_preference_create, "cublasLtMatmulPreferenceCreate");
  library.bind(table.matmul_preference_destroy, "cublasLtMatmulPreferenceDestroy");
  library.bind(table.matmul_preference_set_attribute, "cublasLtMatmulPreferenceSetAttribute");
  library.bind(table.matrix_layout_create, "cublasLtMatrixLayoutCreate");
  library.bind(table.matrix_layout_destroy, "cublasLtMatrixLayoutDestroy");
  library.bind(table.matrix_layout_set_attribute, "cublasLtMatrixLayoutSetAttribute");
  return table;
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt table = load();
  return table;
}

cublasLtHandle_t cublaslt_handle(Device device) {
  static std::mutex mutex;
  static auto* handles = new std::map<int, cublasLtHandle_t>;
  std::lock_guard lock(mutex);
  auto found = handles->find(device.index);
  if (found != handles->end()) return found->second;
  DeviceScope scope(device);
  cublasLtHandle_t handle = nullptr;
  check_cublas(cublaslt().create(&handle), "cublasLtCreate");
  return handles->emplace(device.index, handle).first->second;
}

void check_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::string text = fmt::format("{} failed: {} ({})", call, cublaslt().status_string(status),
                                 cublaslt().status_name(status));
  const bool may_want_memory =
      status == CUBLAS_STATUS_INTERNAL_ERROR || status == CUBLAS_STATUS_EXECUTION_FAILED;
  if (status == CUBLAS_STATUS_ALLOC_FAILED || (may_want_memory && is_nearly_full()))
    throw AllocationError("cublasLt", text);
  throw DeviceError("cublasLt", text);
}

}  // namespace brim::cuda
