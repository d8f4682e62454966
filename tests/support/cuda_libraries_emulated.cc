// An emulated GPU's memory is the host's: kernels here are functions of the host.
#include <algorithm>

#include "brim/base/cuda/stream.h"
#include "brim/ops/conv_shape.h"
#include "brim/ops/cuda/no_libraries.h"
#include "brim/tests/support/cuda_emulator/threads.h"
#include "brim/tests/support/cuda_libraries.h"
#include "brim/tests/support/plain_cublaslt.h"

namespace brim::testing {
namespace {

using cuda::ConvolutionBuffers;
using cuda::ConvolutionCall;

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

void convolve_now(const ConvolutionCall& call, const ConvolutionBuffers& buffers) {
  const ConvShape& s = call.shape;
  const auto *first = static_cast<const float*>(buffers.first),
             *second = static_cast<const float*>(buffers.second);
  auto* result = static_cast<float*>(buffers.result);
  switch (call.pass) {
    case ConvPass::forward:
      std::fill_n(result, s.pixels() * s.k, 0.f);
      return for_each_product(
          s, [&](int64_t x, int64_t weight, int64_t y) { result[y] += first[x] * second[weight]; });
    case ConvPass::backward_data:
      std::fill_n(result, s.n * s.h * s.w * s.c, 0.f);
      return for_each_product(
          s, [&](int64_t x, int64_t weight, int64_t y) { result[x] += first[y] * second[weight]; });
    case ConvPass::backward_weight:
      std::fill_n(result, s.k * s.window(), 0.f);
      return for_each_product(
          s, [&](int64_t x, int64_t weight, int64_t y) { result[weight] += first[x] * second[y]; });
  }
}

void convolve(const ConvolutionCall& call, const ConvolutionBuffers& buffers) {
  // As cuDNN (base/cuda/cudnn.cc).
  cuda::emulator::enqueue(cuda::default_stream(Device::cuda()).handle(),
                          [=] { convolve_now(call, buffers); });
}

}  // namespace

bool use_plain_cuda_libraries() {
  static const bool done = [] {
    cuda::set_plain_convolution(convolve);
    return use_plain_cublaslt();
  }();
  return done;
}

}  // namespace brim::testing
