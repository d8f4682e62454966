// The products of `matmul` and `linear`, by cuBLASLt: as many at a time as lie at even distances,
// the others one after the other, so that sums over a broadcast axis have one order. Halves are
// rounded once: their bias is the library's to add, and sums over a broadcast are left to float32.
#include "brim/ops/matmul.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/error.h"
#include "brim/ops/cuda/add_bias.h"
#include "brim/ops/cuda/gemm.h"
#include "brim/ops/cuda/register.h"
#include "brim/ops/cuda/workspace.h"
#include "brim/ops/matmul_batch.h"
#include "brim/ops/tf32.h"

namespace brim::cuda {
namespace {

/// All products of a call.
struct Products {
  MatmulBatch batch;
  MatmulBatch::Run run;
  Gemm gemm;  // of the first run

  Products(const KernelCall& call, const kernel::MatmulAttributes& attributes)
      : batch(call), run(batch.run()) {
    const Shape &a = call.in[0].shape, &y = call.out[0].shape;
    gemm.dtype = call.out[0].dtype;
    gemm.m = y[y.size() - 2];
    gemm.n = y.back();
    gemm.k = attributes.transpose_a ? a[a.size() - 2] : a.back();
    gemm.transpose_a = attributes.transpose_a;
    gemm.transpose_b = attributes.transpose_b;
    gemm.count = run.count;
    gemm.distance_a = run.a * size_a();
    gemm.distance_b = run.b * size_b();
    gemm.distance_y = run.y * size_y();
    gemm.allow_tf32 = gemm.dtype == Dtype::float32 && allow_tf32();
    gemm.bias = call.in[2].present && is_low_precision(gemm.dtype);
    gemm.alignment = std::min({alignment(call.in[0], size_a()), alignment(call.in[1], size_b()),
                               alignment(call.out[0], size_y()),
                               gemm.bias ? alignment_of(call.in[2].data) : memory::kAlignment});
  }

  int64_t size_a() const { return gemm.m * gemm.k; }
  int64_t size_b() const { return gemm.k * gemm.n; }
  int64_t size_y() const { return gemm.m * gemm.n; }
  bool is_empty() const { return batch.count() * gemm.m * gemm.n * gemm.k == 0; }

  /// The product of run `number`.
  Gemm at(const MatmulBatch::Place& place) const {
    Gemm product = gemm;
    product.accumulate = !place.first;
    return product;
  }

 private:
  /// Of each of the matrices of so many elements in a view.
  int64_t alignment(const View& view, int64_t elements) const {
    int64_t first = alignment_of(view.data);
    if (batch.count() == 1) return first;
    return std::min(first, alignment_of(reinterpret_cast<void*>(elements * size_of(view.dtype))));
  }
};

/// The largest workspace of a run that begins a sum and one that adds to it.
int64_t workspace_of(const Products& products, Device device) {
  int64_t bytes = 0;
  for (int64_t i = 0; i < products.batch.count(); i += products.run.count) {
    Gemm gemm = products.at(products.batch.at(i));
    bytes = std::max(bytes, workspace_bytes(find_plan(gemm, device)));
    if (gemm.accumulate) break;  // the others are as one of the two
  }
  return bytes;
}

int64_t matmul_scratch(const KernelCall& call, const kernel::MatmulAttributes& attributes) {
  Products products(call, attributes);
  if (products.is_empty()) return 0;
  if (is_elsewhere(call.device)) return workspace_scratch(kWorkspaceCap);
  const Device device = device_meant(call.device);
  DeviceScope scope(device);
  return workspace_scratch(workspace_of(products, device));
}

template <class T>
void matmul_kernel(const KernelCall& call, const kernel::MatmulAttributes& attributes) {
  Products products(call, attributes);
  const T *a = call.in[0].as<T>(), *b = call.in[1].as<T>();
  T* y = call.out[0].as<T>();
  if (products.is_empty()) {
    auto bytes = static_cast<size_t>(call.out[0].numel()) * sizeof(T);
    check(cudaMemsetAsync(y, 0, bytes, static_cast<cudaStream_t>(call.stream)), "cudaMemsetAsync");
  } else {
    ScratchCursor cursor(call.scratch);
    void* workspace = take_workspace(cursor, workspace_of(products, call.device));
    for (int64_t i = 0; i < products.batch.count(); i += products.run.count) {
      auto place = products.batch.at(i);
      run(find_plan(products.at(place), call.device),
          {.a = a + place.a * products.size_a(),
           .b = b + place.b * products.size_b(),
           .bias = call.in[2].data,
           .y = y + place.y * products.size_y(),
           .workspace = workspace},
          call.stream);
    }
    if (products.gemm.bias) return;
  }
  if (call.in[2].present) add_bias<T>(call, call.in[2], call.out[0]);
}

/// Of halves: sums over a broadcast are left to float32, and so is what cuBLASLt has no algorithm
/// for: a bias beside rows of an odd size, say.
bool suits(const KernelCall& call, const kernel::MatmulAttributes& attributes) {
  const Products products(call, attributes);
  if (products.batch.count() * products.size_y() != call.out[0].numel()) return false;
  if (products.is_empty() || is_elsewhere(call.device)) return true;
  const Device device = device_meant(call.device);
  DeviceScope scope(device);
  return has_plan(products.at(products.batch.at(0)), device);
}

template <class T>
void register_half() {
  register_kernel(kernel::matmul, DeviceType::cuda, dtype_of<T>, matmul_kernel<T>, matmul_scratch,
                  suits);
}

}  // namespace

void register_matmul() {
  register_kernel(kernel::matmul, DeviceType::cuda, Dtype::float32, matmul_kernel<float>,
                  matmul_scratch);
  register_kernel(kernel::matmul, DeviceType::cuda, Dtype::float64, matmul_kernel<double>,
                  matmul_scratch);
  register_half<Float16>();
  register_half<BFloat16>();
}

}  // namespace brim::cuda
