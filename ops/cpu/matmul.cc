#include "brim/ops/matmul.h"

#include <algorithm>
#include <optional>

#include "brim/ops/cpu/few_pixels.h"
#include "brim/ops/cpu/gemm.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/matmul_batch.h"
#include "brim/ops/onednn.h"

namespace brim::cpu {
namespace {

struct Sizes {
  int64_t m, n, k;
};
Sizes sizes_of(const KernelCall& call, const kernel::MatmulAttributes& attributes) {
  const Shape &a = call.in[0].shape, &y = call.out[0].shape;
  return {y[y.size() - 2], y.back(), attributes.transpose_a ? a[a.size() - 2] : a.back()};
}

/// What a product of a layer with few rows is as a 1x1 convolution of few pixels, and which of its
/// passes: takes as long as the weights take to be read or written, where they lie.
struct FewRows {
  ConvPass pass;
  ConvShape shape;
};
std::optional<FewRows> few_rows_of(const KernelCall& call,
                                   const kernel::MatmulAttributes& attributes) {
  const auto [m, n, k] = sizes_of(call, attributes);
  const auto layer = [](int64_t rows, int64_t in, int64_t out) {
    return ConvShape({1, 1, rows, in}, {out, 1, 1, in}, {1, 1, rows, out}, {});
  };
  FewRows few{ConvPass::forward, layer(m, k, n)};  // x weight^T
  if (!attributes.transpose_b)                     // dy^T x, or dy weight
    few = attributes.transpose_a ? FewRows{ConvPass::backward_weight, layer(k, n, m)}
                                 : FewRows{ConvPass::backward_data, layer(m, n, k)};
  else if (attributes.transpose_a)
    return {};
  const bool has_bias = few.pass != ConvPass::forward && call.in[2].present;
  const int64_t most = few.pass == ConvPass::backward_weight ? kFewPixels : kFewPixelsOfOneCall;
  if (has_bias || MatmulBatch(call).count() != 1 || !has_few_pixels(few.shape, most)) return {};
  return few;
}

template <class T>
void run(const FewRows& few, const T* a, const T* b, const T* bias, T* y, void* scratch) {
  switch (few.pass) {
    case ConvPass::forward:
      return few_pixels(few.shape, a, b, bias, y, scratch);
    case ConvPass::backward_data:
      return few_pixels_backward_data(few.shape, a, b, y, scratch);
    case ConvPass::backward_weight:
      return few_pixels_backward_weight(few.shape, b, a, y, scratch);
  }
}

template <class T>
int64_t matmul_scratch(const KernelCall& call, const kernel::MatmulAttributes& attributes) {
  if (const auto few = few_rows_of(call, attributes))
    return few_pixels_scratch<T>(few->shape, few->pass);
  const auto [m, n, k] = sizes_of(call, attributes);
  return gemm_scratch<T>(m, n, k);
}

template <class T>
void matmul_kernel(const KernelCall& call, const kernel::MatmulAttributes& attributes) {
  const auto [m, n, k] = sizes_of(call, attributes);
  const T *a = call.in[0].as<T>(), *b = call.in[1].as<T>();
  const T* bias = call.in[2].present ? call.in[2].as<T>() : nullptr;
  T* y = call.out[0].as<T>();
  if (const auto few = few_rows_of(call, attributes)) return run(*few, a, b, bias, y, call.scratch);
  MatmulBatch batch(call);
  int64_t count = batch.count();
  if (count == 0) std::fill_n(y, call.out[0].numel(), T(0));
  for (int64_t i = 0; i < count; ++i) {
    auto place = batch.at(i);
    DenseRows<T> left(a + place.a * m * k, attributes.transpose_a ? m : k);
    DenseRows<T> right(b + place.b * k * n, attributes.transpose_b ? k : n);
    gemm<T, T>({.m = m,
                .n = n,
                .k = k,
                .a = {&left, attributes.transpose_a},
                .b = {&right, attributes.transpose_b},
                .c = y + place.y * m * n,
                .c_stride = n,
                .bias = bias,
                .accumulate = !place.first},
               call.scratch);
  }
}

/// In bfloat16: oneDNN's, where the processor has instructions for it. Sums over a broadcast are
/// left to float32, which rounds but once.
onednn::PrimitivePtr library(const KernelCall& call, const kernel::MatmulAttributes& attributes) {
  const auto [m, n, k] = sizes_of(call, attributes);
  const int64_t elements = m * n;  // of one y
  if (!onednn::has_bfloat16() || elements == 0 || k == 0) return nullptr;
  const int64_t products = MatmulBatch(call).count();
  if (products == 0 || products * elements != call.out[0].numel()) return nullptr;
  return onednn::find_product({.m = m,
                               .n = n,
                               .k = k,
                               .transpose_a = attributes.transpose_a,
                               .transpose_b = attributes.transpose_b,
                               .with_bias = call.in[2].present});
}

void run_library(const KernelCall& call, const kernel::MatmulAttributes& attributes) {
  const auto [m, n, k] = sizes_of(call, attributes);
  const onednn::PrimitivePtr product = library(call, attributes);
  const BFloat16 *a = call.in[0].as<BFloat16>(), *b = call.in[1].as<BFloat16>();
  const void* bias = call.in[2].present ? call.in[2].data : nullptr;
  const MatmulBatch batch(call);
  for (int64_t i = 0; i < batch.count(); ++i) {
    const auto place = batch.at(i);
    onednn::run(*product, a + place.a * m * k, b + place.b * k * n, bias,
                call.out[0].as<BFloat16>() + place.y * m * n, call.scratch);
  }
}

}  // namespace

void register_matmul() {
  register_kernel(kernel::matmul, DeviceType::cpu, Dtype::float32, matmul_kernel<float>,
                  matmul_scratch<float>);
  register_kernel(kernel::matmul, DeviceType::cpu, Dtype::float64, matmul_kernel<double>,
                  matmul_scratch<double>);
  register_kernel(
      kernel::matmul, DeviceType::cpu, Dtype::bfloat16, run_library,
      [](const KernelCall& call, const kernel::MatmulAttributes& attributes) {
        return onednn::scratch_bytes(*library(call, attributes));
      },
      [](const KernelCall& call, const kernel::MatmulAttributes& attributes) {
        return library(call, attributes) != nullptr;
      });
}

}  // namespace brim::cpu
