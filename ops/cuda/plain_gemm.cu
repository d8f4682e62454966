#include "brim/core/cuda/strided.cuh"
#include "brim/ops/cuda/plain_gemm.h"

namespace brim::cuda {
namespace {

template <class T>
struct ProductElement {
  Gemm gemm;
  const T *a, *b;
  T* y;

  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t size = gemm.m * gemm.n, product = at.of[0] / size, i = at.of[0] % size;
    const int64_t row = i / gemm.n, column = i % gemm.n;
    const T* left = a + product * gemm.distance_a + row * (gemm.transpose_a ? 1 : gemm.k);
    const T* right = b + product * gemm.distance_b + column * (gemm.transpose_b ? gemm.k : 1);
    const int64_t left_step = gemm.transpose_a ? gemm.m : 1,
                  right_step = gemm.transpose_b ? 1 : gemm.n;
    T& to = y[product * gemm.distance_y + i];
    double sum = gemm.accumulate ? static_cast<double>(to) : 0;
    for (int64_t p = 0; p < gemm.k; ++p)
      sum += static_cast<double>(left[p * left_step]) * static_cast<double>(right[p * right_step]);
    to = static_cast<T>(sum);
  }
};

}  // namespace

template <class T>
void plain_gemm(const Gemm& gemm, const GemmBuffers& buffers, void* stream) {
  KernelCall call;
  call.stream = stream;
  for_each_element(call, gemm.count * gemm.m * gemm.n,
                   ProductElement<T>{gemm, static_cast<const T*>(buffers.a),
                                     static_cast<const T*>(buffers.b), static_cast<T*>(buffers.y)},
                   "plain product");
}

template void plain_gemm<float>(const Gemm&, const GemmBuffers&, void*);
template void plain_gemm<double>(const Gemm&, const GemmBuffers&, void*);

}  // namespace brim::cuda
