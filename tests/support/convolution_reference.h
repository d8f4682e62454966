// Convolution by plain loops in double, for the tests of ops that convolve: the formula of
// ops/conv2d.h, term by term. What lies outside of the image is no term, whatever the weight.
#pragma once

#include <vector>

#include "brim/ops/conv2d.h"
#include "brim/ops/conv_shape.h"

namespace brim::testing {

/// y of float64 inputs; `bias` may be undefined.
inline Tensor convolution_reference(const Tensor& x0, const Tensor& weight0, const Tensor& bias0,
                                    const Conv2dOptions& options) {
  const Shape shape = conv2d_shape(x0.shape(), weight0.shape(), options);
  const ConvShape z(x0.shape(), weight0.shape(), shape, options);
  const std::vector<double> x = x0.to_vector<double>(), weight = weight0.to_vector<double>(),
                            bias =
                                bias0.defined() ? bias0.to_vector<double>() : std::vector<double>();
  std::vector<double> y;
  int64_t channels = z.group_channels();
  for (int64_t n = 0; n < z.n; ++n)
    for (int64_t i = 0; i < z.p; ++i)
      for (int64_t j = 0; j < z.q; ++j)
        for (int64_t k = 0; k < z.k; ++k) {
          double sum = bias.empty() ? 0 : bias[static_cast<size_t>(k)];
          for (int64_t r = 0; r < z.r; ++r)
            for (int64_t s = 0; s < z.s; ++s)
              for (int64_t c = 0; c < channels; ++c) {
                int64_t row = i * z.stride.h - z.padding.h + r * z.dilation.h;
                int64_t column = j * z.stride.w - z.padding.w + s * z.dilation.w;
                if (row < 0 || row >= z.h || column < 0 || column >= z.w) continue;
                int64_t channel = k / z.group_outputs() * channels + c;
                sum += x[static_cast<size_t>(((n * z.h + row) * z.w + column) * z.c + channel)] *
                       weight[static_cast<size_t>(((k * z.r + r) * z.s + s) * channels + c)];
              }
          y.push_back(sum);
        }
  return from_vector(y, shape);
}

}  // namespace brim::testing
