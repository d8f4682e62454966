// An emulated GPU's memory is the host's, and its streams are queues of functions.
#include <array>
#include <cmath>
#include <cstring>

#include "brim/base/cuda/cublaslt.cuh"
#include "brim/core/dtype.h"
#include "brim/tests/support/cuda_emulator/threads.h"
#include "brim/tests/support/plain_cublaslt.h"

namespace brim::testing {
namespace {

CublasLtTroubles troubles;

constexpr int kAlgorithms = 4;
constexpr size_t kWorkspace = 1000;  // times an algorithm's number
std::array<int64_t, kAlgorithms> products{};

/// What the opaque descriptors hold.
struct Layout {
  cudaDataType_t type;
  int32_t count;
  int64_t rows, columns, leading, distance;
};
struct Desc {
  cublasComputeType_t compute;
  int32_t transpose_a, transpose_b, epilogue;
  const void* bias;
};
struct Preference {
  uint64_t workspace;
  uint32_t schemes, least_alignment;
};
struct Algorithm {
  uint32_t number, scheme;
};

template <class Of, class Opaque>
Of& of(Opaque* opaque) {
  static_assert(sizeof(Of) <= sizeof(Opaque));
  return *reinterpret_cast<Of*>(opaque->data);
}
template <class Of, class Opaque>
const Of& of(const Opaque* opaque) {
  return *reinterpret_cast<const Of*>(opaque->data);
}

cublasStatus_t status_of(const char* function) {
  return troubles.failing == function ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

/// A descriptor that is all zeros but for what it begins with.
template <class Of, class Opaque>
cublasStatus_t make(const char* function, Opaque** made, const Of& contents) {
  if (const cublasStatus_t status = status_of(function); status != CUBLAS_STATUS_SUCCESS)
    return status;
  *made = new Opaque{};
  of<Of>(*made) = contents;
  return CUBLAS_STATUS_SUCCESS;
}
template <class Opaque>
cublasStatus_t destroy(Opaque* descriptor) {
  delete descriptor;
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t read(const char* function, T& to, const void* value, size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return status_of(function);
}

cublasStatus_t create(cublasLtHandle_t* handle) {
  static char state;
  *handle = reinterpret_cast<cublasLtHandle_t>(&state);
  return status_of("cublasLtCreate");
}

cublasStatus_t create_layout(cublasLtMatrixLayout_t* layout, cudaDataType_t type, uint64_t rows,
                             uint64_t columns, int64_t leading) {
  return make("cublasLtMatrixLayoutCreate", layout,
              Layout{type, 1, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading});
}

cublasStatus_t set_in_layout(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name,
                             const void* value, size_t bytes) {
  const char* function = "cublasLtMatrixLayoutSetAttribute";
  Layout& is = of<Layout>(layout);
  return name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? read(function, is.count, value, bytes)
                                                    : read(function, is.distance, value, bytes);
}

cublasStatus_t create_desc(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                           cudaDataType_t) {
  return make("cublasLtMatmulDescCreate", desc, Desc{.compute = compute});
}

cublasStatus_t set_in_desc(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name,
                           const void* value, size_t bytes) {
  const char* function = "cublasLtMatmulDescSetAttribute";
  Desc& is = of<Desc>(desc);
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return read(function, is.transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return read(function, is.transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return read(function, is.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return read(function, is.bias, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t create_preference(cublasLtMatmulPreference_t* preference) {
  return make("cublasLtMatmulPreferenceCreate", preference, Preference{});
}

cublasStatus_t set_in_preference(cublasLtMatmulPreference_t preference,
                                 cublasLtMatmulPreferenceAttributes_t name, const void* value,
                                 size_t bytes) {
  const char* function = "cublasLtMatmulPreferenceSetAttribute";
  Preference& is = of<Preference>(preference);
  if (name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return read(function, is.workspace, value, bytes);
  if (name == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
    return read(function, is.schemes, value, bytes);
  return read(function, is.least_alignment, value, bytes);
}

/// Some that are to be taken, after those that are not.
cublasStatus_t propose(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                       cublasLtMatmulPreference_t preference, int wanted,
                       cublasLtMatmulHeuristicResult_t results[], int* found) {
  *found = 0;
  if (troubles.is_refusing) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (troubles.has_none) return status_of("cublasLtMatmulAlgoGetHeuristic");
  const Preference& is = of<Preference>(preference);
  for (; *found < std::min(wanted, kAlgorithms); ++*found) {
    cublasLtMatmulHeuristicResult_t& result = results[*found];
    result = {};
    const bool in_order = *found >= troubles.unordered;
    of<Algorithm>(&result.algo) = {
        static_cast<uint32_t>(*found),
        in_order ? is.schemes : uint32_t{CUBLASLT_REDUCTION_SCHEME_INPLACE}};
    result.workspaceSize = kWorkspace * static_cast<size_t>(*found);
  }
  return status_of("cublasLtMatmulAlgoGetHeuristic");
}

cublasStatus_t tell(const cublasLtMatmulAlgo_t* algorithm,
                    cublasLtMatmulAlgoConfigAttributes_t name, void* value, size_t bytes,
                    size_t* written) {
  const uint32_t scheme = of<Algorithm>(algorithm).scheme;
  if (name != CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME || bytes != sizeof scheme)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, &scheme, bytes);
  *written = bytes;
  return status_of("cublasLtMatmulAlgoConfigGetAttribute");
}

/// One product, column by column, of elements of T that are computed in C.
struct Product {
  Desc desc;
  Layout a, b, y;
  double alpha, beta;
  const void *from_a, *from_b;
  void* to;

  template <class T, class C>
  void run() const {
    for (int32_t i = 0; i < y.count; ++i) run<T, C>(i);
  }

  template <class T, class C>
  void run(int32_t number) const {
    const T *left = static_cast<const T*>(from_a) + number * a.distance,
            *right = static_cast<const T*>(from_b) + number * b.distance;
    T* result = static_cast<T*>(to) + number * y.distance;
    const int64_t depth = desc.transpose_a == CUBLAS_OP_T ? a.rows : a.columns;
    for (int64_t column = 0; column < y.columns; ++column)
      for (int64_t row = 0; row < y.rows; ++row) {
        C sum = 0;
        for (int64_t p = 0; p < depth; ++p)
          sum = std::fma(element<C>(left, a, desc.transpose_a, row, p),
                         element<C>(right, b, desc.transpose_b, p, column), sum);
        T& at = result[row + column * y.leading];
        sum *= static_cast<C>(alpha);
        if (beta != 0) sum += static_cast<C>(beta) * convert<C>(at);
        if (desc.epilogue == CUBLASLT_EPILOGUE_BIAS)
          sum += convert<C>(static_cast<const T*>(desc.bias)[row]);
        at = convert<T>(sum);
      }
  }

  template <class C, class T>
  static C element(const T* matrix, const Layout& layout, int32_t transpose, int64_t row,
                   int64_t column) {
    if (transpose == CUBLAS_OP_T) std::swap(row, column);
    return convert<C>(matrix[row + column * layout.leading]);
  }
};

cublasStatus_t multiply(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha,
                        const void* a, cublasLtMatrixLayout_t layout_a, const void* b,
                        cublasLtMatrixLayout_t layout_b, const void* beta, const void* c,
                        cublasLtMatrixLayout_t layout_c, void* d, cublasLtMatrixLayout_t layout_d,
                        const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t bytes,
                        cudaStream_t stream) {
  const Desc& is = of<Desc>(desc);
  const Algorithm& by = of<Algorithm>(algorithm);
  const bool wide = is.compute == CUBLAS_COMPUTE_64F;
  const auto scalar = [&](const void* value) {
    return wide ? *static_cast<const double*>(value) : *static_cast<const float*>(value);
  };
  if (c != d || layout_c != layout_d || by.scheme == CUBLASLT_REDUCTION_SCHEME_INPLACE ||
      bytes < kWorkspace * by.number || (bytes > 0 && workspace == nullptr))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (const cublasStatus_t status = status_of("cublasLtMatmul"); status != CUBLAS_STATUS_SUCCESS)
    return status;
  ++products[by.number];
  const Product product{is,
                        of<Layout>(layout_a),
                        of<Layout>(layout_b),
                        of<Layout>(layout_d),
                        scalar(alpha),
                        scalar(beta),
                        a,
                        b,
                        d};
  cuda::emulator::enqueue(stream, [product, workspace, bytes] {
    if (bytes > 0) std::memset(workspace, 0xff, bytes);  // it is this product's alone
    switch (product.y.type) {
      case CUDA_R_32F:
        return product.run<float, float>();
      case CUDA_R_64F:
        return product.run<double, double>();
      case CUDA_R_16F:
        return product.run<Float16, float>();
      case CUDA_R_16BF:
        return product.run<BFloat16, float>();
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

const char* name_of(cublasStatus_t status) {
  return status == CUBLAS_STATUS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED"
                                                  : "another CUBLAS_STATUS";
}

}  // namespace

bool use_plain_cublaslt() {
  static const cuda::CublasLt table{
      .create = create,
      .status_name = name_of,
      .status_string = [](cublasStatus_t) { return "the test's cuBLASLt failed"; },
      .matmul = multiply,
      .matmul_algo_config_get_attribute = tell,
      .matmul_algo_get_heuristic = propose,
      .matmul_desc_create = create_desc,
      .matmul_desc_destroy = destroy<cublasLtMatmulDescOpaque_t>,
      .matmul_desc_set_attribute = set_in_desc,
      .matmul_preference_create = create_preference,
      .matmul_preference_destroy = destroy<cublasLtMatmulPreferenceOpaque_t>,
      .matmul_preference_set_attribute = set_in_preference,
      .matrix_layout_create = create_layout,
      .matrix_layout_destroy = destroy<cublasLtMatrixLayoutOpaque_t>,
      .matrix_layout_set_attribute = set_in_layout,
  };
  static const bool done = (cuda::set_cublaslt(&table), true);
  return done;
}

CublasLtTrouble::CublasLtTrouble(const CublasLtTroubles& wanted) {
  troubles = wanted;
  if (use_plain_cublaslt() && wanted.failing == "cublasLtCreate")
    cuda::set_cublaslt(&cuda::cublaslt());  // forgets the handle
}

CublasLtTrouble::~CublasLtTrouble() { troubles = {}; }

std::vector<std::string> cublaslt_functions() {
  return {"cublasLtCreate",
          "cublasLtMatrixLayoutCreate",
          "cublasLtMatrixLayoutSetAttribute",
          "cublasLtMatmulDescCreate",
          "cublasLtMatmulDescSetAttribute",
          "cublasLtMatmulPreferenceCreate",
          "cublasLtMatmulPreferenceSetAttribute",
          "cublasLtMatmulAlgoGetHeuristic",
          "cublasLtMatmulAlgoConfigGetAttribute",
          "cublasLtMatmul"};
}

int64_t products_by(int64_t number) { return products[static_cast<size_t>(number)]; }

}  // namespace brim::testing
