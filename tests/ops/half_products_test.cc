// Convolutions and matrix products of halves, as large as those of real models: who computes them,
// and how exact they are.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "brim/autograd/backward.h"
#include "brim/ops/cast.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/matmul.h"
#include "brim/ops/onednn.h"
#include "brim/tests/support/compare.h"

namespace brim {
namespace {

/// Names of the kernels that ran, those through float32 with a star.
class Kernels final : public LaunchObserver {
 public:
  void launched(const LaunchEvent& event) override {
    names.push_back(event.kernel + std::string(event.widened ? "*" : ""));
  }
  bool ran(const std::string& name) const { return std::ranges::count(names, name) > 0; }
  std::vector<std::string> names;
};

/// A half is rounded from a float32 sum of n products of halves, which are exact: the sum is off by
/// at most n 2^-24 of the sum of magnitudes, however it is ordered, and the half by 2^-8 (bfloat16)
/// or 2^-11 (float16) of itself, or by half the least subnormal.
void check_rounded_once(const Tensor& got, const Tensor& expected, const Tensor& magnitudes,
                        double n) {
  const double unit = got.dtype() == Dtype::bfloat16 ? 0x1p-8 : 0x1p-11;
  const auto values = expected.to_vector<double>();
  auto allowed = magnitudes.to_vector<double>();
  for (size_t i = 0; i < allowed.size(); ++i)
    allowed[i] = unit * 1.01 * std::abs(values[i]) + n * 0x1p-24 * allowed[i] + 0x1p-25;
  CHECK(testing::worst_error(cast(got, Dtype::float64), values, allowed) == "");
}

Tensor wide(const Tensor& x) { return cast(x, Dtype::float64); }
Tensor magnitude(const Tensor& x) {
  auto values = x.to_vector<double>();
  for (double& value : values) value = std::abs(value);
  return from_vector(values, x.shape());
}
Tensor half(const Shape& shape, Dtype dtype, uint64_t seed) {
  return cast(uniform(shape, -1, 1, RandomKey{seed}), dtype);
}

struct Gradients {
  Tensor y, dx, dweight;
};
template <class F>
Gradients differentiate(const Tensor& x0, const Tensor& weight0, const Tensor& dy, const F& f) {
  Tensor x = clone(x0), weight = clone(weight0);
  x.set_requires_grad();
  weight.set_requires_grad();
  Tensor y = f(x, weight);
  backward(y, {.grad = dy});
  return {y, x.grad(), weight.grad()};
}

/// Of f(x, weight), against float64; `y`, `dx` and `dweight` are how many products each sums.
struct Lengths {
  double y, dx, dweight;
};
template <class F>
Kernels check(const Shape& of_x, const Shape& of_weight, const Shape& of_y, Dtype dtype,
              Lengths lengths, const F& f) {
  const Tensor x = half(of_x, dtype, 1), weight = half(of_weight, dtype, 2),
               dy = half(of_y, dtype, 3);
  Kernels kernels;
  Gradients got;
  {
    LaunchObserverScope scope(kernels);
    got = differentiate(x, weight, dy, f);
  }
  const Gradients expected = differentiate(wide(x), wide(weight), wide(dy), f);
  const Gradients sizes =
      differentiate(magnitude(wide(x)), magnitude(wide(weight)), magnitude(wide(dy)), f);
  check_rounded_once(got.y, expected.y, sizes.y, lengths.y);
  check_rounded_once(got.dx, expected.dx, sizes.dx, lengths.dx);
  check_rounded_once(got.dweight, expected.dweight, sizes.dweight, lengths.dweight);
  return kernels;
}

/// Widened, but in bfloat16 on a processor with instructions for it.
std::string as_run(const char* kernel, Dtype dtype) {
  const bool native = dtype == Dtype::bfloat16 && onednn::has_bfloat16();
  return kernel + std::string(native ? "" : "*");
}

}  // namespace

TEST_CASE("a convolution of halves is rounded once, in instructions for it where there are") {
  for (Dtype dtype : {Dtype::bfloat16, Dtype::float16})
    for (const Conv2dOptions& options :
         {Conv2dOptions{.padding = 1}, Conv2dOptions{.padding = 1, .groups = 4},
          Conv2dOptions{.stride = 2, .padding = 1}}) {
      CAPTURE(to_string(dtype));
      const int64_t channels = 64 / options.groups, side = 28 / options.stride.h;
      // Seven images are several slices of a weight gradient.
      const Kernels ran =
          check({7, 28, 28, 64}, {96, 3, 3, channels}, {7, side, side, 96}, dtype,
                {9.0 * 64, 9.0 * 96, 7.0 * 28 * 28}, [&](const Tensor& x, const Tensor& weight) {
                  return conv2d(x, weight, Tensor(), options);
                });
      CHECK(ran.ran(as_run("conv2d", dtype)));
      CHECK(ran.ran(as_run("conv2d_backward_data", dtype)));
      CHECK(ran.ran("conv2d_backward_weight"));
    }
}

TEST_CASE("a product of halves is rounded once, in instructions for it where there are") {
  for (Dtype dtype : {Dtype::bfloat16, Dtype::float16}) {
    CAPTURE(to_string(dtype));
    const Kernels ran = check({3, 50, 200}, {3, 200, 70}, {3, 50, 70}, dtype, {200, 70, 50},
                              [](const Tensor& a, const Tensor& b) { return matmul(a, b); });
    CHECK(ran.ran(as_run("matmul", dtype)));
    // Gradients of a matrix that all of a batch share are summed in float32, and rounded once.
    check({3, 50, 200}, {200, 70}, {3, 50, 70}, dtype, {200, 70, 150},
          [](const Tensor& a, const Tensor& b) { return matmul(a, b); });
  }
}

}  // namespace brim
