#include "brim/ops/cuda/gemm.h"

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "brim/base/cuda/cublaslt.cuh"
#include "brim/base/cuda/error.h"
#include "brim/core/slow_launches.h"
#include "brim/ops/cuda/failed_for.h"
#include "brim/ops/cuda/plain_gemm.h"
#include "brim/ops/cuda/without.h"
#include "brim/ops/cuda/workspace.h"

namespace brim::cuda {
namespace {

template <class Opaque, class Create, class... Args>
Opaque* created(Create* create, const char* call, Args... args) {
  Opaque* descriptor = nullptr;
  check_cublas(create(&descriptor, args...), call);
  return descriptor;
}

struct Destroy {
  void operator()(cublasLtMatrixLayoutOpaque_t* layout) const noexcept {
    cublaslt().matrix_layout_destroy(layout);
  }
  void operator()(cublasLtMatmulDescOpaque_t* desc) const noexcept {
    cublaslt().matmul_desc_destroy(desc);
  }
  void operator()(cublasLtMatmulPreferenceOpaque_t* preference) const noexcept {
    cublaslt().matmul_preference_destroy(preference);
  }
};
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroy>;
using MatmulDesc = std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Destroy>;

cudaDataType_t data_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::float64:
      return CUDA_R_64F;
    case Dtype::float16:
      return CUDA_R_16F;
    case Dtype::bfloat16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

cublasComputeType_t compute_type(const Gemm& gemm) {
  if (gemm.dtype == Dtype::float64) return CUBLAS_COMPUTE_64F;
  return gemm.allow_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

Layout make_layout(const Gemm& gemm, const ColumnMajor& matrix, int64_t distance) {
  Layout layout(created<cublasLtMatrixLayoutOpaque_t>(
      cublaslt().matrix_layout_create, "cublasLtMatrixLayoutCreate", data_type(gemm.dtype),
      static_cast<uint64_t>(matrix.rows), static_cast<uint64_t>(matrix.columns), matrix.leading));
  auto set = [&](cublasLtMatrixLayoutAttribute_t name, auto value) {
    check_cublas(cublaslt().matrix_layout_set_attribute(layout.get(), name, &value, sizeof value),
                 "cublasLtMatrixLayoutSetAttribute");
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(gemm.count));
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, distance);
  return layout;
}

/// Heuristics see of the bias its alignment alone: any address that has it will do for them.
MatmulDesc make_desc(const Gemm& gemm, const void* bias) {
  bool wide = gemm.dtype == Dtype::float64;
  MatmulDesc desc(
      created<cublasLtMatmulDescOpaque_t>(cublaslt().matmul_desc_create, "cublasLtMatmulDescCreate",
                                          compute_type(gemm), wide ? CUDA_R_64F : CUDA_R_32F));
  auto set = [&](cublasLtMatmulDescAttributes_t name, auto value) {
    check_cublas(cublaslt().matmul_desc_set_attribute(desc.get(), name, &value, sizeof value),
                 "cublasLtMatmulDescSetAttribute");
  };
  auto operation = [](bool transposed) -> int32_t {
    return transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  const GemmLayout layout(gemm);
  set(CUBLASLT_MATMUL_DESC_TRANSA, operation(layout.left.transposed));
  set(CUBLASLT_MATMUL_DESC_TRANSB, operation(layout.right.transposed));
  if (gemm.bias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  return desc;
}

Preference make_preference(const Gemm& gemm) {
  Preference preference(created<cublasLtMatmulPreferenceOpaque_t>(
      cublaslt().matmul_preference_create, "cublasLtMatmulPreferenceCreate"));
  auto set = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
    check_cublas(
        cublaslt().matmul_preference_set_attribute(preference.get(), name, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kWorkspaceCap));
  // Parts of a sum are added in the workspace and in one order, never in place.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (auto name :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(name, static_cast<uint32_t>(gemm.alignment));
  return preference;
}

// Results of the heuristics that are looked at. The good ones are first.
constexpr int kAsked = 16;

/// Whether parts of sums are added in one order. The preference asks for no others.
bool adds_in_order(const cublasLtMatmulAlgo_t& algorithm) {
  uint32_t scheme = 0;
  size_t written = 0;
  check_cublas(
      cublaslt().matmul_algo_config_get_attribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                                  &scheme, sizeof scheme, &written),
      "cublasLtMatmulAlgoConfigGetAttribute");
  return scheme == CUBLASLT_REDUCTION_SCHEME_NONE ||
         scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

bool is_acceptable(const cublasLtMatmulHeuristicResult_t& result) {
  if (result.state == CUBLAS_STATUS_NOT_SUPPORTED) return false;
  check_cublas(result.state, "cublasLtMatmulAlgoGetHeuristic");
  return static_cast<int64_t>(result.workspaceSize) <= kWorkspaceCap && adds_in_order(result.algo);
}

std::string name_of(const Gemm& gemm) {
  return fmt::format("{} {} product{} [{},{}] by [{},{}]{}", gemm.count, to_string(gemm.dtype),
                     gemm.count == 1 ? "" : "s", gemm.m, gemm.k, gemm.k, gemm.n,
                     gemm.bias ? " with a bias" : "");
}

}  // namespace

class GemmPlan {
 public:
  GemmPlan(const Gemm& gemm, Device device) : gemm_(gemm) {
    const auto name = [this] { return name_of(gemm_); };
    choose_for(name, [&] { describe(); });
    handle_ = cublaslt_handle(device);  // the first that needs a GPU
    choose_for(name, [&] { choose(); });
  }

  int64_t workspace_bytes() const { return static_cast<int64_t>(chosen_.workspaceSize); }

  void run(const GemmBuffers& buffers, void* stream) const {
    if (is_plain_) return run_plain(buffers, stream);
    run_for([this] { return name_of(gemm_); }, [&] { run_library(buffers, stream); });
  }

 private:
  void describe() {
    const GemmLayout layout(gemm_);
    desc_ = make_desc(gemm_, reinterpret_cast<const void*>(gemm_.alignment));
    left_ = make_layout(gemm_, layout.left, gemm_.distance_b);
    right_ = make_layout(gemm_, layout.right, gemm_.distance_a);
    result_ = make_layout(gemm_, layout.result, gemm_.distance_y);
  }

  /// The first that is acceptable; without one a plain kernel, which rounds halves too often.
  void choose() {
    std::array<cublasLtMatmulHeuristicResult_t, kAsked> results{};
    const Preference preference = make_preference(gemm_);
    int found = 0;
    const cublasStatus_t status = cublaslt().matmul_algo_get_heuristic(
        handle_, desc_.get(), left_.get(), right_.get(), result_.get(), result_.get(),
        preference.get(), kAsked, results.data(), &found);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED)
      found = 0;
    else
      check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
    for (int i = 0; i < found; ++i)
      if (is_acceptable(results[static_cast<size_t>(i)])) {
        chosen_ = results[static_cast<size_t>(i)];
        return;
      }
    is_plain_ = !is_low_precision(gemm_.dtype);
    expect<UnsupportedError>(is_plain_, "cublasLt", "no algorithm that adds in one order");
  }

  void run_plain(const GemmBuffers& buffers, void* stream) const {
    note_slow_launch("matmul", "by a plain kernel");
    const bool wide = gemm_.dtype == Dtype::float64;
    (wide ? plain_gemm<double> : plain_gemm<float>)(gemm_, buffers, stream);
  }

  void run_library(const GemmBuffers& buffers, void* stream) const {
    MatmulDesc with_bias;  // not in the plan, which other threads use too
    if (gemm_.bias) with_bias = make_desc(gemm_, buffers.bias);
    cublasLtMatmulDesc_t desc = with_bias ? with_bias.get() : desc_.get();
    // Of the dtype in which the product is computed.
    double one = 1, zero = 0;
    float one32 = 1, zero32 = 0;
    bool wide = gemm_.dtype == Dtype::float64;
    const void* alpha = wide ? static_cast<const void*>(&one) : &one32;
    const void* keep = wide ? static_cast<const void*>(&one) : &one32;
    const void* drop = wide ? static_cast<const void*>(&zero) : &zero32;
    check_cublas(
        cublaslt().matmul(handle_, desc, alpha, buffers.b, left_.get(), buffers.a, right_.get(),
                          gemm_.accumulate ? keep : drop, buffers.y, result_.get(), buffers.y,
                          result_.get(), &chosen_.algo, buffers.workspace, chosen_.workspaceSize,
                          static_cast<cudaStream_t>(stream)),
        "cublasLtMatmul");
  }

  Gemm gemm_;
  cublasLtHandle_t handle_ = nullptr;
  MatmulDesc desc_;
  Layout left_, right_, result_;
  cublasLtMatmulHeuristicResult_t chosen_{};
  bool is_plain_ = false;
};

const GemmPlan& find_plan(const Gemm& gemm, Device device) {
  static std::mutex mutex;
  static auto* plans = new std::map<std::pair<int, Gemm>, GemmPlan>;
  std::lock_guard lock(mutex);
  auto found = plans->find({device.index, gemm});
  if (found == plans->end())
    found = plans->emplace(std::pair(device.index, gemm), GemmPlan(gemm, device)).first;
  return found->second;
}

bool has_plan(const Gemm& gemm, Device device) {
  static auto* without = new Without<std::pair<int, Gemm>>;
  return without->finds({device.index, gemm}, [&] { find_plan(gemm, device); });
}

int64_t workspace_bytes(const GemmPlan& plan) { return plan.workspace_bytes(); }

void run(const GemmPlan& plan, const GemmBuffers& buffers, void* stream) {
  plan.run(buffers, stream);
}

}  // namespace brim::cuda
