#include "brim/base/cuda/cublaslt.cuh"
#include "brim/base/cuda/library.h"

namespace brim::cuda {

CublasLt load_cublaslt() {
  Library library("libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR));
  CublasLt table{};
  library.bind(table.create, "cublasLtCreate");
  library.bind(table.status_name, "cublasLtGetStatusName");
  library.bind(table.status_string, "cublasLtGetStatusString");
  library.bind(table.matmul, "cublasLtMatmul");
  library.bind(table.matmul_algo_config_get_attribute, "cublasLtMatmulAlgoConfigGetAttribute");
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

}  // namespace brim::cuda
