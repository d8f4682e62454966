// Convolutions and matrix products of halves, as large as those of real models: who computes them,
// and how exact they are.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "brim/autograd/backward.h"
#include "brim/ops/autocast.h"
#include "brim/ops/cast.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/matmul.h"
#include "brim/ops/onednn.h"
#include "brim/tests/support/compare.h"
#include "brim/tests/support/launched_kernels.h"
#include "brim/tests/support/whole_numbers.h"

namespace brim {
namespace {

using testing::LaunchedKernels;

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

/// Of f(x, weight) and its gradients, against float64.
template <class F>
LaunchedKernels check(const Shape& of_x, const Shape& of_weight, const Shape& of_y, Dtype dtype,
                      const F& f) {
  const Tensor x = testing::whole_numbers(of_x, dtype, 1),
               weight = testing::whole_numbers(of_weight, dtype, 2),
               dy = testing::whole_numbers(of_y, dtype, 3);
  auto wide = [](const Tensor& tensor) { return cast(tensor, Dtype::float64); };
  LaunchedKernels kernels;
  Gradients got;
  {
    LaunchObserverScope scope(kernels);
    got = differentiate(x, weight, dy, f);
  }
  const Gradients expected = differentiate(wide(x), wide(weight), wide(dy), f);
  CHECK(testing::bit_difference(got.y, cast(expected.y, dtype)) == "");
  CHECK(testing::bit_difference(got.dx, cast(expected.dx, dtype)) == "");
  CHECK(testing::bit_difference(got.dweight, cast(expected.dweight, dtype)) == "");
  return kernels;
}

/// All launches of the kernel, as `has_native_products` says: as they are, or widened.
void check_ran(const LaunchedKernels& kernels, const std::string& name, Dtype dtype) {
  CAPTURE(name);
  const bool native = has_native_products(dtype, Device::cpu());
  CHECK(kernels.runs_of(native ? name : name + "*") > 0);
  CHECK(kernels.runs_of(native ? name + "*" : name) == 0);
}

}  // namespace

TEST_CASE("a convolution of halves is rounded once, in instructions for it where there are") {
  // Of a weight gradient these are slices of 10, 10 and 1 image. Windows of 3x3 with a stride of 1
  // and many channels are not for here: by Winograd's method thirds are on the way.
  const Shape x{21, 28, 28, 64};
  for (Dtype dtype : {Dtype::bfloat16, Dtype::float16})
    for (const Conv2dOptions& options :
         {Conv2dOptions{.padding = 2}, Conv2dOptions{.padding = 1, .groups = 2},
          Conv2dOptions{.stride = 2, .padding = 1}}) {
      CAPTURE(to_string(dtype));
      const int64_t window = 2 * options.padding.h + 1;
      const Shape weight{32, window, window, 64 / options.groups};
      const Shape y{21, 28 / options.stride.h, 28 / options.stride.w, 32};
      const LaunchedKernels ran = check(
          x, weight, y, dtype,
          [&](const Tensor& in, const Tensor& by) { return conv2d(in, by, Tensor(), options); });
      check_ran(ran, "conv2d", dtype);
      check_ran(ran, "conv2d_backward_data", dtype);
      if (has_native_products(dtype, Device::cpu()))
        CHECK(onednn::find_convolution({{10, 28, 28, 64}, weight, {10, y[1], y[2], 32}, options},
                                       onednn::Pass::backward_weight, false, dtype) != nullptr);
    }
}

TEST_CASE("a product of halves is rounded once, in instructions for it where there are") {
  auto product = [](const Tensor& a, const Tensor& b) { return matmul(a, b); };
  for (Dtype dtype : {Dtype::bfloat16, Dtype::float16}) {
    CAPTURE(to_string(dtype));
    check_ran(check({3, 50, 200}, {3, 200, 70}, {3, 50, 70}, dtype, product), "matmul", dtype);
    // The gradient of a matrix that each of the batch multiplies is summed in float32.
    check({3, 50, 200}, {1, 200, 70}, {3, 50, 70}, dtype, product);
  }
}

}  // namespace brim
