// Plain loops for norms of samples by themselves: the `OpSample::reference` of `group_norm` and
// `layer_norm`. Shares no code with ops/group_norm.h. For statistics over the batch see
// batch_norm_test.cc.
#pragma once

#include <cmath>
#include <vector>

#include "brim/autograd/op.h"

namespace brim::testing {

/// x seen as [samples, pixels, channels], `groups` of channels; weight and bias have a value for
/// each channel, or are undefined.
inline Tensors group_norm_reference(const Tensor& x, int64_t samples, int64_t pixels,
                                    int64_t groups, const Tensor& weight, const Tensor& bias,
                                    double epsilon) {
  std::vector<double> in = x.to_vector<double>(), y(in.size()), scale, shift;
  if (weight.defined()) scale = weight.to_vector<double>();
  if (bias.defined()) shift = bias.to_vector<double>();
  int64_t channels = samples * pixels == 0 ? 0 : x.numel() / (samples * pixels);
  int64_t width = channels / groups;
  auto at = [&](int64_t n, int64_t p, int64_t c) {
    return static_cast<size_t>((n * pixels + p) * channels + c);
  };
  for (int64_t n = 0; n < samples; ++n)
    for (int64_t first = 0; first < channels; first += width) {
      double mean = 0, variance = 0, count = static_cast<double>(pixels * width);
      for (int64_t p = 0; p < pixels; ++p)
        for (int64_t c = first; c < first + width; ++c) mean += in[at(n, p, c)] / count;
      for (int64_t p = 0; p < pixels; ++p)
        for (int64_t c = first; c < first + width; ++c)
          variance += std::pow(in[at(n, p, c)] - mean, 2) / count;
      for (int64_t p = 0; p < pixels; ++p)
        for (int64_t c = first; c < first + width; ++c) {
          auto channel = static_cast<size_t>(c);
          double xhat = (in[at(n, p, c)] - mean) / std::sqrt(variance + epsilon);
          y[at(n, p, c)] =
              xhat * (scale.empty() ? 1 : scale[channel]) + (shift.empty() ? 0 : shift[channel]);
        }
    }
  return {from_vector(y, x.shape())};
}

}  // namespace brim::testing
