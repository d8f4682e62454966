#include "brim/ops/scaled_dot_product_attention.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/autograd/random_context.h"
#include "brim/base/cuda/devices.h"
#include "brim/ops/dropout.h"
#include "brim/ops/matmul.h"
#include "brim/ops/mul.h"
#include "brim/ops/permute.h"
#include "brim/ops/softmax.h"
#include "brim/tests/support/broadcast_reference.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

// Inputs: q, k, v and perhaps a mask. q has all leading axes; those of k and v are its last ones.
Tensors reference(const Tensors& in, const AttentionOptions& options) {
  int64_t queries = in[0].size(-2), keys = in[1].size(-2), size = in[0].size(-1);
  int64_t features = in[2].size(-1), batches = in[0].numel() / std::max<int64_t>(queries * size, 1);
  Shape shape = in[0].shape(), scores_shape = shape;
  shape[shape.size() - 1] = features;
  scores_shape[shape.size() - 1] = keys;
  std::vector<double> q = in[0].to_vector<double>(), k = in[1].to_vector<double>(),
                      v = in[2].to_vector<double>(), mask, y;
  if (in.size() > 3) mask = in[3].to_vector<double>();
  double scale = options.scale.value_or(1 / std::sqrt(size));
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t i = 0; i < queries; ++i) {
      std::vector<double> weights, sums(static_cast<size_t>(features), 0.0);
      double total = 0;
      for (int64_t j = 0; j < keys; ++j) {
        double score = 0, term = 0;
        auto key = static_cast<size_t>((b * keys + j) * size) % k.size();
        for (int64_t e = 0; e < size; ++e)
          score += q[static_cast<size_t>((b * queries + i) * size + e)] *
                   k[key + static_cast<size_t>(e)];
        if (!mask.empty()) {
          auto at = static_cast<size_t>((b * queries + i) * keys + j);
          term = mask[testing::broadcast_index(at, scores_shape, in[3].shape())];
          if (in[3].dtype() == Dtype::boolean) term = term != 0 ? 0 : -INFINITY;
        }
        if (options.causal && j > i) term = -INFINITY;
        weights.push_back(std::exp(score * scale + term));
        total += weights.back();
      }
      for (int64_t j = 0; j < keys; ++j)
        for (int64_t f = 0; f < features; ++f)
          sums[static_cast<size_t>(f)] +=
              weights[static_cast<size_t>(j)] / total *
              v[static_cast<size_t>((b * keys + j) * features + f) % v.size()];
      y.insert(y.end(), sums.begin(), sums.end());
    }
  return {from_vector(y, shape)};
}

Tensor random(const Shape& shape, uint64_t key) {
  return uniform(shape, -2, 2, RandomKey{key}, {.dtype = Dtype::float64});
}

// Every query sees the first key.
Tensor random_mask(const Shape& shape) {
  std::vector<int64_t> seen;
  for (int64_t i = 0; i < numel(shape); ++i)
    seen.push_back(i % shape.back() == 0 ||
                   random_bits(RandomKey{7}, 0, static_cast<uint64_t>(i)) % 2);
  return convert_to(from_vector(seen, shape), {.dtype = Dtype::boolean});
}

OpSample sample(const char* name, const Shape& q, const Shape& k, const Shape& v,
                const AttentionOptions& options = {}, const Tensor& mask = {}) {
  OpSample sample{.name = name,
                  .inputs = {random(q, 1), random(k, 2), random(v, 3)},
                  .run =
                      [=](const Tensors& in) {
                        AttentionOptions with = options;
                        if (in.size() > 3) with.mask = in[3];
                        return Tensors{scaled_dot_product_attention(in[0], in[1], in[2], with)};
                      },
                  .reference = [=](const Tensors& in) { return reference(in, options); },
                  .reduction = std::max(q.back(), k[k.size() - 2]),
                  .backward_reduction = numel(q) + numel(k)};
  if (mask.defined()) sample.inputs.push_back(mask);
  return sample;
}

OpSample batched(OpSample sample) {
  sample.batched = {0, 1, 2};
  return sample;
}

}  // namespace

TEST_CASE("scaled_dot_product_attention: spec") {
  auto call = [](const Shape& q, const Shape& k, const Shape& v, AttentionOptions options = {}) {
    return [=] { scaled_dot_product_attention(zeros(q), zeros(k), zeros(v), options); };
  };
  const Shape q{2, 3, 4, 5}, k{2, 3, 6, 5}, v{2, 3, 6, 7};
  check_op(
      {.op = "scaled_dot_product_attention",
       .samples = {sample("matrices", {4, 5}, {6, 5}, {6, 7}), batched(sample("heads", q, k, v)),
                   sample("one set of keys", q, {6, 5}, {6, 7}),
                   sample("scale", q, k, v, {.scale = 0.7}),
                   sample("causal", {2, 5, 3}, {2, 5, 3}, {2, 5, 4}, {.causal = true}),
                   sample("causal, more keys", {2, 3, 3}, {2, 5, 3}, {2, 5, 4}, {.causal = true}),
                   sample("causal, fewer keys", {2, 5, 3}, {2, 3, 3}, {2, 3, 4}, {.causal = true}),
                   sample("bool mask", q, k, v, {}, random_mask({4, 6})),
                   sample("bool mask per image", q, k, v, {}, random_mask({2, 1, 1, 6})),
                   sample("added mask", q, k, v, {}, random({3, 4, 6}, 4)),
                   sample("mask and causal", {2, 5, 3}, {2, 5, 3}, {2, 5, 4}, {.causal = true},
                          random_mask({2, 1, 5})),
                   sample("no queries", {0, 5}, {6, 5}, {6, 7})},
       .errors = {
           {call({4, 5}, {6, 4}, {6, 7}),
            "scaled_dot_product_attention: expected q [...,L,E], k [...,S,E] and v [...,S,F], got "
            "[4,5], [6,4] and [6,7]"},
           {call({4, 5}, {6, 5}, {5, 7}), "got [4,5], [6,5] and [5,7]"},
           {call({5}, {6, 5}, {6, 7}), "got [5], [6,5] and [6,7]"},
           {call({2, 4, 5}, {3, 6, 5}, {6, 7}), "shapes [2] and [3] do not broadcast"},
           {call({4, 5}, {6, 5}, {6, 7}, {.mask = ones({2, 4, 6})}),
            "expected a mask that broadcasts to the scores [4,6], got [2,4,6]"},
           {call({4, 5}, {6, 5}, {6, 7}, {.mask = ones({4, 6}, {.dtype = Dtype::float64})}),
            "expected a mask of bool or float32, got float64"},
           {call({4, 5}, {6, 5}, {6, 7}, {.dropout = 1.5}),
            "expected a dropout in [0, 1], got 1.5"},
           {[] {
              scaled_dot_product_attention(ones({2, 2}), ones({2, 2}), arange(2));
            },
            "expected one dtype, got float32 and int64"}}});
}

TEST_CASE("scaled_dot_product_attention: masks on a GPU are those on the CPU") {
  if (std::string why = cuda::why_no_device(); !why.empty()) {
    MESSAGE("skipped: masks of attention on CUDA (", why, ")");
    return;
  }
  for (Dtype dtype : {Dtype::float32, Dtype::float64})
    for (bool causal : {false, true}) {
      auto bias_on = [&](Device device) {
        Tensor mask, bias = empty({3, 5}, {.dtype = dtype, .device = device});
        if (!causal)
          mask =
              convert_to(from_vector<bool>({1, 1, 0, 0, 1, 0, 0, 0, 1, 1, 1, 0, 1, 0, 0}, {3, 5}),
                         {Dtype::boolean, device});
        launch(kernel::attention_bias, {mask}, {bias});
        return bias.to_vector<double>();
      };
      CHECK(bias_on(Device::cuda()) == bias_on(Device::cpu()));
    }
}

TEST_CASE("scaled_dot_product_attention: dropout acts on the weights") {
  Tensor q = uniform({2, 4, 5}, -2, 2, RandomKey{1}), k = uniform({2, 6, 5}, -2, 2, RandomKey{2});
  Tensor v = uniform({2, 6, 7}, -2, 2, RandomKey{3});
  autograd::manual_seed(5);
  Tensor y = scaled_dot_product_attention(q, k, v, {.dropout = 0.5, .scale = 0.25});
  autograd::manual_seed(5);
  Tensor scores = matmul(mul(q, full({}, 0.25)), permute(k, {0, 2, 1}));
  Tensor composed = matmul(dropout(softmax(scores), {.p = 0.5}), v);
  CHECK(y.to_vector<float>() == composed.to_vector<float>());
  Tensor none = scaled_dot_product_attention(q, k, v, {.dropout = 1});
  CHECK(none.to_vector<float>() == std::vector<float>(2 * 4 * 7, 0));
}

TEST_CASE("scaled_dot_product_attention: the scale is not rounded to a half") {
  // In bfloat16 1.003 would be 1. As it is, the largest number below 2 becomes 2, and 1 stays 1.
  const TensorOptions half{.dtype = Dtype::bfloat16};
  auto attend = [&](float first, double scale) {
    Tensor q = convert_to(from_vector<float>({first, 1}, {1, 2}), half);
    Tensor k = convert_to(from_vector<float>({64, 0, 0, 127}, {2, 2}), half);
    Tensor v = convert_to(from_vector<float>({1, 0}, {2, 1}), half);
    return scaled_dot_product_attention(q, k, v, {.scale = scale}).item<float>();
  };
  CHECK(attend(1.9921875f, 1.003) == attend(2, 1));
  CHECK(attend(1.9921875f, 1) != attend(2, 1));
}

TEST_CASE("scaled_dot_product_attention: a query that may see no key gets NaN") {
  Tensor x = ones({2, 3});
  Tensor mask = convert_to(from_vector<int64_t>({1, 1, 0, 0}, {2, 2}), {.dtype = Dtype::boolean});
  auto y = scaled_dot_product_attention(x, x, x, {.mask = mask}).to_vector<float>();
  CHECK(y[0] == 1);
  CHECK(std::isnan(y[3]));
}

}  // namespace brim
