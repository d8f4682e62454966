// Kernels on the CPU take subnormal numbers for 0, brim's own and the library's, on every thread;
// who launches them keeps theirs.
#include "brim/base/flush_denormals.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "brim/base/parallel.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/exp.h"
#include "brim/ops/linear.h"
#include "brim/ops/mul.h"
#include "brim/tests/support/compare.h"

namespace brim {
namespace {

bool all_zero(const Tensor& tensor) {
  const std::vector<float> values = tensor.to_vector<float>();
  return !values.empty() && std::ranges::all_of(values, [](float value) { return value == 0; });
}

/// y of numbers that are normal, where all products are 2^-140, and their sums below 2^-126.
Tensor tiny_convolution(int64_t channels, int64_t size, int window, Conv2dOptions options) {
  const Tensor x = full({4, size, size, channels}, 0x1.0p-70);
  const Tensor weight = full({channels, window, window, channels / options.groups}, 0x1.0p-70);
  return conv2d(x, weight, {}, options);
}

}  // namespace

TEST_CASE("results below the smallest normal number are 0") {
  for (int64_t size : {1, 7, 100'000}) {
    CAPTURE(size);
    CHECK(all_zero(mul(full({size}, 1e-20), full({size}, 1e-20))));
    CHECK(all_zero(mul(full({size}, 1e-39), full({size}, 1e10))));
    CHECK(all_zero(exp(full({size}, -100))));
    CHECK(!all_zero(mul(full({size}, 2e-19), full({size}, 2e-19))));
  }
  CHECK(all_zero(linear(full({64, 32}, 0x1.0p-70), full({48, 32}, 0x1.0p-70), {})));
  CHECK(!FlushDenormals::is_on());
}

TEST_CASE("so they are in convolutions, whoever computes them") {
  CHECK(all_zero(tiny_convolution(16, 9, 1, {})));
  CHECK(all_zero(tiny_convolution(32, 12, 3, {.padding = 1})));
  CHECK(all_zero(tiny_convolution(32, 13, 3, {.stride = 2, .padding = 1})));
  CHECK(all_zero(tiny_convolution(32, 12, 3, {.padding = 1, .groups = 32})));
}

TEST_CASE("also on threads of a pool that the library's loops are the first to use") {
  const int before = num_threads();
  std::thread([&] {  // a pool of its own
    set_num_threads(2);
#pragma omp parallel num_threads(2)
    CHECK(!FlushDenormals::is_on());
    CHECK(all_zero(tiny_convolution(32, 13, 3, {.stride = 2, .padding = 1})));
    CHECK(!FlushDenormals::is_on());
  })
      .join();
  set_num_threads(before);
}

TEST_CASE("float16 keeps its own subnormal numbers") {
  const Tensor x = full({1000}, 0x1.0p-20, {.dtype = Dtype::float16});
  const std::vector<float> y =
      mul(x, full({1000}, 0.25, {.dtype = Dtype::float16})).to_vector<float>();
  CHECK(y == std::vector<float>(1000, 0x1.0p-22f));
}

}  // namespace brim
