// The functions of cuBLASLt that brim calls, by their names without the prefix. Loaded at first
// use. Products of tensors are in ops/cuda/gemm.h.
#pragma once

#include <cublasLt.h>

#include "brim/base/device.h"

namespace brim::cuda {

struct CublasLt {
  decltype(cublasLtCreate)* create;
  decltype(cublasLtGetStatusName)* status_name;
  decltype(cublasLtGetStatusString)* status_string;
  decltype(cublasLtMatmul)* matmul;
  decltype(cublasLtMatmulAlgoConfigGetAttribute)* matmul_algo_config_get_attribute;
  decltype(cublasLtMatmulAlgoGetHeuristic)* matmul_algo_get_heuristic;
  decltype(cublasLtMatmulDescCreate)* matmul_desc_create;
  decltype(cublasLtMatmulDescDestroy)* matmul_desc_destroy;
  decltype(cublasLtMatmulDescSetAttribute)* matmul_desc_set_attribute;
  decltype(cublasLtMatmulPreferenceCreate)* matmul_preference_create;
  decltype(cublasLtMatmulPreferenceDestroy)* matmul_preference_destroy;
  decltype(cublasLtMatmulPreferenceSetAttribute)* matmul_preference_set_attribute;
  decltype(cublasLtMatrixLayoutCreate)* matrix_layout_create;
  decltype(cublasLtMatrixLayoutDestroy)* matrix_layout_destroy;
  decltype(cublasLtMatrixLayoutSetAttribute)* matrix_layout_set_attribute;
};

/// Throws `MissingLibraryError` where it is not there.
const CublasLt& cublaslt();

/// For `cublaslt`: the library's functions. An emulated GPU has none.
CublasLt load_cublaslt();

/// For tests: functions in place of the library's, for as long as they are set; null: the library's
/// own. Forgets the handles.
void set_cublaslt(const CublasLt* table);

/// The library's state for a GPU; made at first use, never destroyed. Throws as `check_cublas`.
cublasLtHandle_t cublaslt_handle(Device device);

/// Throws `AllocationError` for want of memory, `UnsupportedError` for that status, else
/// `DeviceError`: each names call and status.
void check_cublas(cublasStatus_t status, const char* call);

}  // namespace brim::cuda
