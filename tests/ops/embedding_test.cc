#include "brim/ops/embedding.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/base/cuda/devices.h"
#include "brim/base/parallel.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

Tensor reference(const Tensors& in) {
  std::vector<double> weight = in[1].to_vector<double>(), y;
  int64_t width = in[1].size(1);
  for (int64_t row : in[0].to_vector<int64_t>())
    y.insert(y.end(), weight.begin() + row * width, weight.begin() + (row + 1) * width);
  Shape shape = in[0].shape();
  shape.push_back(width);
  return from_vector(y, shape);
}

OpSample sample(const char* name, const Tensor& indices, const Shape& weight) {
  std::vector<int64_t> values = indices.to_vector<int64_t>();
  int64_t most = 1;
  for (int64_t value : values) most = std::max<int64_t>(most, std::ranges::count(values, value));
  return {.name = name,
          .inputs = {indices, uniform(weight, -2, 2, RandomKey{1}, {.dtype = Dtype::float64})},
          .run = [=](const Tensors& in) { return Tensors{embedding(in[0], in[1])}; },
          .reference = [=](const Tensors& in) { return Tensors{reference(in)}; },
          .backward_reduction = most};
}

OpSample batched(OpSample sample) {
  sample.batched = {0};
  return sample;
}

Tensor indices(const std::vector<int64_t>& values) {
  return from_vector(values, {static_cast<int64_t>(values.size())});
}

}  // namespace

TEST_CASE("embedding: spec") {
  Tensor weight = zeros({4, 3});
  check_op({.op = "embedding",
            .samples = {batched(sample("repeated rows", indices({3, 0, 3, 1, 3}), {5, 4})),
                        batched(sample("two axes", from_vector<int64_t>({1, 0, 2, 2, 1, 1}, {2, 3}),
                                       {3, 70})),
                        sample("int32", from_vector<int32_t>({2, 0, 2}, {3}), {3, 2}),
                        sample("one index", from_vector<int64_t>({2}, {}), {3, 5}),
                        sample("no width", indices({1, 0}), {2, 0}),
                        sample("no rows, none asked for", indices({}), {0, 3})},
            .errors = {{[=] {
                          embedding(indices({0, 4, 5}), weight);
                        },
                        "embedding: expected indices in [0, 4), got 4 at position 1"},
                       {[=] {
                          embedding(indices({0, 1, -1}), weight);
                        },
                        "embedding: expected indices in [0, 4), got -1 at position 2"},
                       {[=] { embedding(from_vector<int32_t>({7}, {1}), weight); },
                        "embedding: expected indices in [0, 4), got 7 at position 0"},
                       {[=] { embedding(zeros({2}), weight); },
                        "embedding: expected int64 or int32 indices, got float32"},
                       {[] { embedding(indices({0}), zeros({4})); },
                        "embedding: expected weight [rows,width], got [4]"},
                       {[] {
                          embedding(indices({0}), zeros({4, 3}, {.dtype = Dtype::int8}));
                        },
                        "embedding: expected a floating dtype, got int8"},
                       {[=] { embedding(indices({0}), weight, {.padding_index = 4}); },
                        "embedding: expected a padding index in [0, 4), got 4"}}});
}

TEST_CASE("embedding: the padding index is read, and gets no gradient") {
  Tensor weight = from_vector<float>({1, 2, 3, 4}, {2, 2}).set_requires_grad();
  Tensor y = embedding(indices({0, 1, 0}), weight, {.padding_index = 0});
  CHECK(y.to_vector<float>() == std::vector<float>{1, 2, 3, 4, 1, 2});
  backward(y, {.grad = ones({3, 2})});
  CHECK(weight.grad().to_vector<float>() == std::vector<float>{0, 0, 1, 1});
}

TEST_CASE("embedding: on a GPU, which cannot throw, an index outside the table makes NaN") {
  if (std::string why = cuda::why_no_device(); !why.empty()) {
    MESSAGE("skipped: embedding on CUDA (", why, ")");
    return;
  }
  auto there = [](const Tensor& t) { return convert_to(t, {t.dtype(), Device::cuda()}); };
  Tensor weight = there(from_vector<float>({1, 2, 3, 4}, {2, 2})).set_requires_grad();
  Tensor y = embedding(there(indices({1, 2, -1, 1})), weight);
  std::vector<float> values = y.to_vector<float>();
  for (size_t i = 0; i < values.size(); ++i) CHECK(std::isnan(values[i]) == (i >= 2 && i < 6));
  CHECK(values[0] == 3);
  backward(y, {.grad = there(from_vector<float>({1, 2, 4, 8, 16, 32, 64, 128}, {4, 2}))});
  CHECK(weight.grad().to_vector<float>() == std::vector<float>{0, 0, 65, 130});
}

TEST_CASE("embedding: gradients on a GPU have the CPU's bits") {
  if (std::string why = cuda::why_no_device(); !why.empty()) {
    MESSAGE("skipped: gradients of embedding on CUDA (", why, ")");
    return;
  }
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < 300; ++i)
    rows.push_back(
        static_cast<int64_t>(random_bits(RandomKey{2}, 0, static_cast<uint64_t>(i)) % 40));
  auto gradient = [&](Device device) {
    auto there = [=](const Tensor& t) { return convert_to(t, {t.dtype(), device}); };
    Tensor weight = there(zeros({40, 7})).set_requires_grad();
    backward(embedding(there(indices(rows)), weight, {.padding_index = 3}),
             {.grad = there(uniform({300, 7}, -1, 1, RandomKey{3}))});
    return weight.grad().to_vector<float>();
  };
  CHECK(gradient(Device::cuda()) == gradient(Device::cpu()));
}

TEST_CASE("embedding: gradients have the same bits with any number of threads") {
  int before = num_threads();
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < 5000; ++i)
    rows.push_back(
        static_cast<int64_t>(random_bits(RandomKey{2}, 0, static_cast<uint64_t>(i)) % 40));
  Tensor dy = uniform({5000, 40}, -1, 1, RandomKey{3});
  auto gradient = [&](int threads) {
    set_num_threads(threads);
    Tensor weight = zeros({40, 40}).set_requires_grad();
    backward(embedding(indices(rows), weight), {.grad = dy});
    return weight.grad().to_vector<float>();
  };
  std::vector<float> one = gradient(1);
  CHECK(gradient(3) == one);
  set_num_threads(before);
}

TEST_CASE("embedding: a row that is named a million times gets an exact sum") {
  // A float sum of ones stops at 2^24; one of tenths is off long before.
  constexpr int64_t kCount = 1 << 20;
  Tensor weight = zeros({1, 1}).set_requires_grad();
  Tensor y = embedding(zeros({kCount}, {.dtype = Dtype::int64}), weight);
  backward(y, {.grad = full({kCount, 1}, 0.1)});
  CHECK(weight.grad().item<float>() == 0.1f * kCount);
}

}  // namespace brim
