// The gradient of a bias, for `linear` and `conv2d`: the sum of each column of a matrix.
#include "brim/core/cuda/compute.cuh"
#include "brim/core/cuda/strided.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/linear.h"

namespace brim::cuda {
namespace {

constexpr int kColumns = 32;  // of a block: one warp reads a stretch of a row
constexpr int kRows = 16;     // of a block at a time

struct ColumnSums {
  double of[kRows][kColumns];
};

/// Thread (x, y) adds rows y, y + 16, ... of column x; the 16 sums are added as a tree. In double,
/// and in one order for any GPU.
template <class S>
__global__ void sum_columns(const S* dy, S* db, int64_t rows, int64_t columns) {
  auto& sums = shared_memory<ColumnSums>()->of;
  int64_t column = int64_t{blockIdx.x} * kColumns + threadIdx.x;
  double sum = 0;
  if (column < columns)
    for (int64_t row = threadIdx.y; row < rows; row += kRows)
      sum += static_cast<double>(widen(dy[row * columns + column]));
  sums[threadIdx.y][threadIdx.x] = sum;
  for (unsigned half = kRows / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) sums[threadIdx.y][threadIdx.x] += sums[threadIdx.y + half][threadIdx.x];
  }
  if (threadIdx.y == 0 && column < columns) db[column] = round_to<S>(sums[0][threadIdx.x]);
}

template <class S>
void bias_gradient_kernel(const KernelCall& call, const NoAttributes&) {
  int64_t columns = call.out[0].numel();
  if (columns == 0) return;
  auto blocks = static_cast<unsigned>((columns + kColumns - 1) / kColumns);
  launch_kernel("bias_gradient", sum_columns<S>, {blocks, {kColumns, kRows}, sizeof(ColumnSums)},
                call.stream, call.in[0].as<S>(), call.out[0].as<S>(), call.in[0].numel() / columns,
                columns);
}

}  // namespace

void register_linear() {
  register_kernel(kernel::bias_gradient, DeviceType::cuda, Dtype::float32,
                  bias_gradient_kernel<float>);
  register_kernel(kernel::bias_gradient, DeviceType::cuda, Dtype::float64,
                  bias_gradient_kernel<double>);
  register_kernel(kernel::bias_gradient, DeviceType::cuda, Dtype::float16,
                  bias_gradient_kernel<Float16>);
  register_kernel(kernel::bias_gradient, DeviceType::cuda, Dtype::bfloat16,
                  bias_gradient_kernel<BFloat16>);
}

}  // namespace brim::cuda
