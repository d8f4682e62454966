#include "brim/ops/slice.h"

#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/ops/add.h"
#include "brim/ops/mul.h"
#include "brim/ops/neg.h"
#include "brim/ops/pad.h"
#include "brim/ops/sum.h"
#include "brim/tests/support/compare.h"
#include "brim/tests/support/launched_kernels.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

// `indices` of axis 1 of a tensor of three axes.
Tensor reference(const Tensor& x, const std::vector<int64_t>& indices) {
  std::vector<double> from = x.to_vector<double>(), to;
  int64_t rows = x.size(1), columns = x.size(2);
  for (int64_t i = 0; i < x.size(0); ++i)
    for (int64_t j : indices)
      for (int64_t k = 0; k < columns; ++k)
        to.push_back(from[static_cast<size_t>((i * rows + j) * columns + k)]);
  return from_vector(to, {x.size(0), static_cast<int64_t>(indices.size()), columns});
}

OpSample sample(const char* name, SliceOptions options, std::vector<int64_t> indices) {
  return {.name = name,
          .inputs = {uniform({2, 6, 3}, -2, 2, RandomKey{1}, {.dtype = Dtype::float64})},
          .run = [=](const Tensors& in) { return Tensors{slice(in[0], 1, options)}; },
          .reference = [=](const Tensors& in) { return Tensors{reference(in[0], indices)}; },
          .batched = {0}};
}

// Every other row and column, and the last channels: of each axis as it is alone.
OpSample several_axes() {
  return {.name = "several axes",
          .inputs = {uniform({2, 5, 6, 4}, -2, 2, RandomKey{1}, {.dtype = Dtype::float64})},
          .run =
              [](const Tensors& in) {
                return Tensors{slice(
                    in[0], {{1, {.begin = 1, .step = 2}}, {-2, {.step = 2}}, {-1, {.begin = -3}}})};
              },
          .reference =
              [](const Tensors& in) {
                std::vector<double> to;
                const std::vector<double> from = in[0].to_vector<double>();
                for (int64_t n = 0; n < in[0].size(0); ++n)
                  for (int64_t i : {1, 3})
                    for (int64_t j : {0, 2, 4})
                      for (int64_t c : {1, 2, 3})
                        to.push_back(from[static_cast<size_t>(((n * 5 + i) * 6 + j) * 4 + c)]);
                return Tensors{from_vector(to, {in[0].size(0), 2, 3, 3})};
              },
          .batched = {0}};
}

}  // namespace

TEST_CASE("slice: spec") {
  Tensor x = ones({2, 3});
  check_op({.op = "slice",
            .samples = {sample("all", {}, {0, 1, 2, 3, 4, 5}), sample("front", {.end = 2}, {0, 1}),
                        sample("back", {.begin = -2}, {4, 5}),
                        sample("middle", {.begin = 1, .end = -1}, {1, 2, 3, 4}),
                        sample("every other", {.step = 2}, {0, 2, 4}),
                        sample("steps", {.begin = 1, .end = 6, .step = 4}, {1, 5}),
                        sample("beyond", {.begin = -100, .end = 100, .step = 1000}, {0}),
                        sample("none", {.begin = 4, .end = 2}, {}), several_axes()},
            .errors = {{[=] { slice(x, 2, {}); }, "slice: axis 2 is out of range for 2 dimensions"},
                       {[=] { slice(x, 0, {.step = 0}); },
                        "slice: expected a step of at least 1, got 0"}}});
}

TEST_CASE("slice: is a view") {
  Tensor x = arange(10);
  Tensor y = slice(x, 0, {.begin = 2, .end = 8, .step = 3});
  CHECK(y.storage() == x.storage());
  CHECK(y.to_vector<int64_t>() == std::vector<int64_t>{2, 5});
}

TEST_CASE("slice: of one axis twice is the second range of the first") {
  const Tensor y = slice(arange(10), {{0, {.begin = 2, .step = 2}}, {0, {.begin = 1, .step = 2}}});
  CHECK(y.to_vector<int64_t>() == std::vector<int64_t>{4, 8});
}

TEST_CASE("slice: backward of several axes writes the gradient once, with one fill") {
  Tensor x = ones({2, 4, 4, 3}).set_requires_grad();
  const Tensor y = slice(neg(x), {{1, {.step = 2}}, {2, {.step = 2}}});
  const Tensor dy = ones(y.shape());
  testing::LaunchedKernels kernels;
  {
    const LaunchObserverScope scope(kernels);
    backward(y, {.grad = dy});
  }
  CHECK(kernels.runs_of("fill") == 1);
  CHECK(kernels.runs_of("copy") == 1);
}

TEST_CASE("slice: a gradient with strides is read where it is") {
  Tensor x = ones({4, 3}).set_requires_grad();
  const Tensor y = pad(slice(neg(x), 0, {.step = 2}), {{}, {1, 2}});
  const Tensor dy = uniform(y.shape(), -1, 1, RandomKey{3});
  testing::LaunchedKernels kernels;
  {
    const LaunchObserverScope scope(kernels);
    backward(y, {.grad = dy});
  }
  CHECK(kernels.runs_of("copy") == 1);  // into the zeros, of a view of dy
  Tensor expected = zeros({4, 3});
  copy_into(slice(expected, 0, {.step = 2}), slice(dy, 1, {.begin = 1, .end = 4}));
  CHECK(testing::bit_difference(x.grad(), neg(expected)) == "");
}

TEST_CASE("slice: where the source has a gradient already its own is added to that in place") {
  const Tensor x = uniform({2, 6, 3}, -1, 1, RandomKey{1});
  const Tensor factor = uniform({2, 6, 3}, -1, 1, RandomKey{2});
  Tensor leaf = clone(x).set_requires_grad();
  testing::LaunchedKernels kernels;
  {
    const Tensor inner = neg(leaf);
    const Tensor some = sum(slice(inner, 1, {.begin = 1, .step = 2}));
    const Tensor loss = add(some, sum(mul(inner, factor)));
    const LaunchObserverScope scope(kernels);
    backward(loss);
  }
  Tensor expected = clone(factor);
  accumulate_into(slice(expected, 1, {.begin = 1, .step = 2}), ones({2, 3, 3}));
  CHECK(testing::bit_difference(leaf.grad(), neg(expected)) == "");
  CHECK(kernels.runs_of("accumulate") == 1);
  CHECK(kernels.runs_of("copy") == 0);  // into zeros
}

TEST_CASE("slice: writing to the view makes what was saved of the source stale") {
  Tensor x = ones({6}), weight = ones({6}).set_requires_grad();
  Tensor y = mul(weight, x);
  fill(slice(x, 0, {.begin = 3}), 7);
  CHECK_THROWS_AS(backward(y, {.grad = ones({6})}), AutogradError);
}

TEST_CASE("slice: gradients of overlapping slices are added") {
  Tensor x = ones({4}).set_requires_grad();
  Tensor a = slice(x, 0, {.end = 3}), b = slice(x, 0, {.begin = 2});
  backward(a, {.grad = ones({3})});
  backward(b, {.grad = ones({2})});
  CHECK(x.grad().to_vector<float>() == std::vector<float>{1, 1, 2, 1});
}

}  // namespace brim
