// An emulated GPU's memory is the host's: kernels here are functions of the host.
#include <algorithm>

#include "brim/core/launch.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/conv_shape.h"
#include "brim/ops/matmul.h"
#include "brim/ops/matmul_batch.h"
#include "brim/tests/support/cuda_libraries.h"

namespace brim::testing {
namespace {

/// body(x, weight, y): the offsets of every product of the convolution, in a fixed order.
template <class Body>
void for_each_product(const ConvShape& s, Body body) {
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t p = 0; p < s.p; ++p)
      for (int64_t q = 0; q < s.q; ++q)
        for (int64_t k = 0; k < s.k; ++k)
          for (int64_t r = 0; r < s.r; ++r)
            for (int64_t t = 0; t < s.s; ++t) {
              const int64_t h = p * s.stride.h - s.padding.h + r * s.dilation.h,
                            w = q * s.stride.w - s.padding.w + t * s.dilation.w;
              if (h < 0 || h >= s.h || w < 0 || w >= s.w) continue;
              const int64_t first = k / s.group_outputs() * s.group_channels();
              for (int64_t c = 0; c < s.group_channels(); ++c)
                body(((n * s.h + h) * s.w + w) * s.c + first + c,
                     ((k * s.r + r) * s.s + t) * s.group_channels() + c,
                     ((n * s.p + p) * s.q + q) * s.k + k);
            }
}

void conv2d_plain(const KernelCall& call, const Conv2dOptions& options) {
  const View &x = call.in[0], &weight = call.in[1], &bias = call.in[2], &y = call.out[0];
  const ConvShape s(x.shape, weight.shape, y.shape, options);
  for (int64_t i = 0; i < y.numel(); ++i)
    y.as<float>()[i] = bias.present ? bias.as<float>()[i % s.k] : 0;
  for_each_product(s, [&](int64_t i, int64_t j, int64_t o) {
    y.as<float>()[o] += x.as<float>()[i] * weight.as<float>()[j];
  });
}

void backward_data_plain(const KernelCall& call, const Conv2dOptions& options) {
  const View &dy = call.in[0], &weight = call.in[1], &dx = call.out[0];
  std::fill_n(dx.as<float>(), dx.numel(), 0.f);
  for_each_product(ConvShape(dx.shape, weight.shape, dy.shape, options),
                   [&](int64_t i, int64_t j, int64_t o) {
                     dx.as<float>()[i] += dy.as<float>()[o] * weight.as<float>()[j];
                   });
}

void backward_weight_plain(const KernelCall& call, const Conv2dOptions& options) {
  const View &x = call.in[0], &dy = call.in[1], &dweight = call.out[0];
  std::fill_n(dweight.as<float>(), dweight.numel(), 0.f);
  for_each_product(ConvShape(x.shape, dweight.shape, dy.shape, options),
                   [&](int64_t i, int64_t j, int64_t o) {
                     dweight.as<float>()[j] += dy.as<float>()[o] * x.as<float>()[i];
                   });
}

void matmul_plain(const KernelCall& call, const kernel::MatmulAttributes& attributes) {
  const View &a = call.in[0], &b = call.in[1], &bias = call.in[2], &y = call.out[0];
  const int64_t m = y.shape[y.shape.size() - 2], n = y.shape.back(),
                k = attributes.transpose_a ? a.shape[a.shape.size() - 2] : a.shape.back();
  const MatmulBatch batch(call);
  for (int64_t i = 0; i < y.numel(); ++i)
    y.as<float>()[i] = bias.present ? bias.as<float>()[i % n] : 0;
  for (int64_t product = 0; product < batch.count(); ++product) {
    const MatmulBatch::Place at = batch.at(product);
    const float *a0 = a.as<float>() + at.a * m * k, *b0 = b.as<float>() + at.b * k * n;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t l = 0; l < k; ++l)
          y.as<float>()[at.y * m * n + i * n + j] +=
              a0[attributes.transpose_a ? l * m + i : i * k + l] *
              b0[attributes.transpose_b ? j * k + l : l * n + j];
  }
}

}  // namespace

void use_plain_cuda_libraries() {
  static const bool done = [] {
    constexpr DeviceType kCuda = DeviceType::cuda;
    constexpr Dtype kDtype = Dtype::float32;
    register_kernel(kernel::conv2d, kCuda, kDtype, conv2d_plain);
    register_kernel(kernel::conv2d_backward_data, kCuda, kDtype, backward_data_plain);
    register_kernel(kernel::conv2d_backward_weight, kCuda, kDtype, backward_weight_plain);
    register_kernel(kernel::matmul, kCuda, kDtype, matmul_plain);
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace brim::testing
