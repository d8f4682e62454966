// The data gradient of a 1x1 convolution whose input has another gradient already is added to that
// in place, with the bits of the two made apart and added.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "brim/autograd/backward.h"
#include "brim/ops/add.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/mul.h"
#include "brim/ops/neg.h"
#include "brim/ops/onednn.h"
#include "brim/tests/support/compare.h"
#include "brim/tests/support/launched_kernels.h"

namespace brim {
namespace {

struct Case {
  Shape x;
  Dtype dtype;
  bool adds = true;  ///< is there a kernel that does?
};

Tensor numbers(const Shape& shape, Dtype dtype, uint64_t key) {
  return uniform(shape, -1, 1, RandomKey{key}, {.dtype = dtype});
}

/// Of x in conv2d(x, weight) alone.
Tensor data_gradient(const Tensor& x, const Tensor& weight, const Tensor& dy) {
  Tensor leaf = clone(x).set_requires_grad();
  backward(conv2d(leaf, weight, Tensor()), {.grad = dy});
  return leaf.grad();
}

}  // namespace

TEST_CASE("conv2d: what goes around a 1x1 window and what goes through it add up in place") {
  const bool native = onednn::has_bfloat16();
  for (const auto& [shape, dtype, adds] :
       {Case{{3, 64, 64, 24}, Dtype::float32}, Case{{9, 31, 33, 19}, Dtype::float32},
        Case{{2, 5, 7, 24}, Dtype::float32}, Case{{1, 2, 2, 256}, Dtype::float32},
        Case{{2, 5, 7, 24}, Dtype::float64},
        // Three slices: two images, two and one.
        Case{{5, 96, 96, 48}, Dtype::bfloat16, native},
        Case{{1, 3, 3, 64}, Dtype::bfloat16, native}, Case{{2, 5, 7, 24}, Dtype::float16, false}}) {
    CAPTURE(to_string(shape));
    CAPTURE(to_string(dtype));
    const Tensor x = numbers(shape, dtype, 1), dy = numbers(shape, dtype, 3),
                 factor = numbers(shape, dtype, 4);
    const Tensor weight = numbers({shape[3], 1, 1, shape[3]}, dtype, 2);
    Tensor expected = mul(dy, factor);
    accumulate_into(expected, data_gradient(x, weight, dy));

    Tensor leaf = clone(x).set_requires_grad();
    testing::LaunchedKernels kernels;
    {
      const Tensor inner = neg(leaf);
      const Tensor through = conv2d(inner, weight, Tensor()), around = mul(inner, factor);
      const Tensor sum = add(through, around);
      const LaunchObserverScope scope(kernels);
      backward(sum, {.grad = dy});
    }
    CHECK(testing::bit_difference(leaf.grad(), neg(expected)) == "");
    CHECK(kernels.runs_of("conv2d_backward_data_add") == (adds ? 1 : 0));
    CHECK(kernels.runs_of("accumulate") == (adds ? 0 : 1));
  }
}

TEST_CASE("a gradient that reaches a value twice as one tensor counts twice") {
  const Tensor dy = numbers({3, 4}, Dtype::float32, 1);
  const Tensor kept = clone(dy), two = full({}, 2), three = full({}, 3);
  const auto gradient = [&](auto f) {
    Tensor leaf = ones({3, 4}).set_requires_grad();
    backward(f(neg(leaf)), {.grad = dy});
    return neg(leaf.grad());
  };
  const auto twice = [](const Tensor& h) { return add(h, h); };
  CHECK(testing::bit_difference(gradient(twice), mul(dy, two)) == "");
  const auto thrice = [](const Tensor& h) {
    const Tensor inner = add(h, h);
    return add(h, inner);
  };
  CHECK(testing::bit_difference(gradient(thrice), mul(dy, three)) == "");
  Tensor hooked = ones({3, 4}).set_requires_grad();
  register_hook(hooked, [](const Tensor&) { return Tensor(); });
  backward(add(hooked, hooked), {.grad = dy});
  CHECK(testing::bit_difference(hooked.grad(), mul(dy, two)) == "");
  CHECK(testing::bit_difference(dy, kept) == "");
}

TEST_CASE("conv2d: a gradient that somebody else reads is not added to") {
  const Shape shape{2, 5, 7, 24};
  const Tensor dy = numbers(shape, Dtype::float32, 3), x = numbers(shape, Dtype::float32, 1);
  const Tensor weight = numbers({24, 1, 1, 24}, Dtype::float32, 2);
  const Tensor kept = clone(dy);
  Tensor expected = clone(dy);
  accumulate_into(expected, data_gradient(x, weight, dy));
  Tensor leaf = clone(x).set_requires_grad();
  const Tensor inner = neg(leaf);
  // dy is the gradient of both terms.
  const Tensor through = conv2d(inner, weight, Tensor());
  backward(add(through, inner), {.grad = dy});
  CHECK(testing::bit_difference(leaf.grad(), neg(expected)) == "");
  CHECK(testing::bit_difference(dy, kept) == "");
}

}  // namespace brim
