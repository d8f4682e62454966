#include "brim/ops/gather.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/base/cuda/devices.h"
#include "brim/base/parallel.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

// y[p] = x[p, but index[p] along the axis] for every place p of the index.
Tensor reference(const Tensors& in, int axis) {
  const Shape &from = in[0].shape(), &shape = in[1].shape();
  std::vector<double> x = in[0].to_vector<double>(), y;
  std::vector<int64_t> index = in[1].to_vector<int64_t>();
  for (size_t i = 0; i < index.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t at = 0, stride = 1;
    for (int a = shape.size() - 1; a >= 0; --a) {
      at += (a == axis ? index[i] : rest % shape[a]) * stride;
      rest /= shape[a];
      stride *= from[a];
    }
    y.push_back(x[static_cast<size_t>(at)]);
  }
  return from_vector(y, shape);
}

Tensor random_index(const Shape& shape, int64_t size) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < numel(shape); ++i)
    values.push_back(static_cast<int64_t>(random_bits(RandomKey{2}, 0, static_cast<uint64_t>(i)) %
                                          static_cast<uint64_t>(size)));
  return from_vector(values, shape);
}

OpSample sample(const char* name, const Shape& x, int axis, const Shape& index) {
  return {.name = name,
          .inputs = {uniform(x, -2, 2, RandomKey{1}, {.dtype = Dtype::float64}),
                     random_index(index, x[axis])},
          .run = [=](const Tensors& in) { return Tensors{gather(in[0], axis, in[1])}; },
          .reference = [=](const Tensors& in) { return Tensors{reference(in, axis)}; },
          .backward_reduction = std::max<int64_t>(index[axis], 1)};
}

OpSample batched(OpSample sample) {
  sample.batched = {0, 1};
  return sample;
}

Tensor index(const std::vector<int64_t>& values, const Shape& shape) {
  return from_vector(values, shape);
}

}  // namespace

TEST_CASE("gather: spec") {
  Tensor x = ones({2, 3});
  check_op(
      {.op = "gather",
       .samples = {batched(sample("last axis", {4, 5}, 1, {4, 2})),
                   sample("first axis", {3, 4}, 0, {6, 4}),
                   batched(sample("middle axis", {2, 5, 3}, 1, {2, 4, 3})),
                   sample("fewer lines than x has", {4, 5, 3}, 1, {2, 7, 2}),
                   sample("one axis", {5}, 0, {9}), sample("nothing asked for", {3, 4}, 1, {3, 0}),
                   sample("long sums", {2, 2, 3}, 1, {2, 600, 3}),
                   sample("one of each row", {6, 4}, 1, {6, 1})},
       .errors = {{[=] {
                     gather(x, 1, index({0, 3}, {2, 1}));
                   },
                   "gather: expected indices in [0, 3), got 3 at position 1"},
                  {[=] {
                     gather(x, 0, index({-1, 0, 0}, {1, 3}));
                   },
                   "gather: expected indices in [0, 2), got -1 at position 0"},
                  {[=] {
                     gather(x, 1, index({0, 0, 0}, {3, 1}));
                   },
                   "gather: expected an index of at most the sizes of x [2,3] but along axis 1, "
                   "got [3,1]"},
                  {[=] { gather(x, 1, index({0}, {1})); },
                   "gather: expected an index of at most the sizes of x [2,3] but along axis 1, "
                   "got [1]"},
                  {[=] {
                     gather(x, 2, index({0, 0}, {2, 1}));
                   },
                   "gather: axis 2 is out of range for 2 dimensions"},
                  {[=] {
                     gather(x, 1, zeros({2, 1}, {.dtype = Dtype::int32}));
                   },
                   "gather: expected an int64 index, got int32"},
                  {[] { gather(arange(3), 0, index({0}, {1})); },
                   "gather: expected a floating dtype, got int64"}}});
}

TEST_CASE("gather: axes count from the end") {
  Tensor x = from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(gather(x, -1, index({2, 0}, {2, 1})).to_vector<float>() == std::vector<float>{3, 4});
}

TEST_CASE("gather: on a GPU, which cannot throw, an index outside x makes NaN") {
  if (std::string why = cuda::why_no_device(); !why.empty()) {
    MESSAGE("skipped: gather on CUDA (", why, ")");
    return;
  }
  auto there = [](const Tensor& t) { return convert_to(t, {t.dtype(), Device::cuda()}); };
  Tensor x = there(from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3})).set_requires_grad();
  Tensor y = gather(x, 1, there(index({1, 3, -1, 0}, {2, 2})));
  std::vector<float> values = y.to_vector<float>();
  CHECK(values[0] == 2);
  CHECK(std::isnan(values[1]));
  CHECK(std::isnan(values[2]));
  CHECK(values[3] == 4);
  backward(y, {.grad = there(from_vector<float>({1, 2, 4, 8}, {2, 2}))});
  CHECK(x.grad().to_vector<float>() == std::vector<float>{0, 1, 0, 8, 0, 0});
}

TEST_CASE("gather: gradients have the same bits with any number of threads") {
  int before = num_threads();
  for (const Shape& shape : {Shape{64, 500, 3}, Shape{2, 200, 300}}) {
    Tensor which = random_index(shape, 4), dy = uniform(shape, -1, 1, RandomKey{3});
    auto gradient = [&](int threads) {
      set_num_threads(threads);
      Tensor x = zeros({shape[0], 4, shape[2]}).set_requires_grad();
      backward(gather(x, 1, which), {.grad = dy});
      return x.grad().to_vector<float>();
    };
    std::vector<float> one = gradient(1);
    CHECK(gradient(3) == one);
  }
  set_num_threads(before);
}

}  // namespace brim
