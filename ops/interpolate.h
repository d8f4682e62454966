// Images of another size by nearest or bilinear interpolation: PyTorch's `interpolate`, in NHWC,
// with its rules for where an output pixel lies in the input. Like those, it does not filter: to
// shrink images by much, as a loader does, use data/resize.h, or `adaptive_avg_pool2d`. For
// upsampling with weights that are learnt there is `conv_transpose2d`.
#pragma once

#include <cstdint>

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"
#include "brim/ops/pair.h"

namespace brim {

enum class InterpolateMode : uint8_t { nearest, bilinear };

/// Factors of height and width. `2` stands for {2, 2}.
struct ScaleFactors {
  double h, w;

  // NOLINTNEXTLINE(google-explicit-constructor): `.scale = 2` should read so.
  constexpr ScaleFactors(double both) : h(both), w(both) {}
  constexpr ScaleFactors(double h, double w) : h(h), w(w) {}
};

struct InterpolateOptions {
  Pair size = 0;           ///< of the result; or, where it is 0,
  ScaleFactors scale = 0;  ///< the result is floor(H * scale.h) x floor(W * scale.w)
  InterpolateMode mode = InterpolateMode::nearest;
  /// Bilinear: corner pixels are points on the corners of the image, and not its outer squares.
  bool align_corners = false;
};

/// x [N,H,W,C] -> y [N,P,Q,C]. Output row i lies at row s of x, columns likewise:
///   nearest:                  s = floor(i * r), at most H - 1
///   bilinear:                 s = max((i + 0.5) * r - 0.5, 0)
///   bilinear, align_corners:  s = i * (H - 1) / (P - 1), or 0 where P is 1
/// with r = H / P where the size is given, 1 / scale where that is. Bilinear weighs the rows
/// floor(s) and floor(s) + 1 (or H - 1, if less) by 1 - s + floor(s) and s - floor(s); a row of
/// weight 0 is not read.
///
/// Floating dtypes. Positions and weights are in double for each of them, and i * H / P is exact.
/// PyTorch computes them in the tensor's own precision, and so, at sizes that do not divide, may
/// see another nearest pixel where r * i is a rounding away from a whole number. Saves nothing.
///
/// Throws `ShapeError` when x has not four axes, or H or W is 0; `ValueError` unless one of size
/// and scale is given, the result has pixels, and align_corners comes with bilinear.
Tensor interpolate(Tensor x, const InterpolateOptions& options, Where where = Where::current());

/// Where outputs lie along one axis of the input: at max((i + shift) * from / to - shift, 0).
struct InterpolateAxis {
  double from = 1, to = 1, shift = 0;
};
struct Interpolation {
  InterpolateAxis h, w;
  InterpolateMode mode = InterpolateMode::nearest;
};

namespace kernel {
/// in: x; out: y. Contiguous.
inline constexpr Kernel<Interpolation> interpolate{.name = "interpolate",
                                                   .by_rows = {.in = 0b1, .out = 0b1}};
/// in: dy; out: dx. Contiguous.
inline constexpr Kernel<Interpolation> interpolate_backward{.name = "interpolate_backward",
                                                            .by_rows = {.in = 0b1, .out = 0b1}};
}  // namespace kernel

}  // namespace brim
