#include "brim/ops/dropout.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/autograd/random_context.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

constexpr uint64_t kSeed = 7;

Tensors run(const Tensors& in, double p) {
  autograd::RandomScope scope(kSeed, 0);
  return {dropout(in[0], {.p = p})};
}

Tensors reference(const Tensors& in, double p) {
  autograd::RandomScope scope(kSeed, 0);
  autograd::RandomAddress address = autograd::next_random_address("dropout");
  std::vector<double> y = in[0].to_vector<double>();
  auto samples = static_cast<size_t>(in[0].dim() == 0 ? 1 : in[0].size(0));
  for (size_t i = 0; i < y.size(); ++i) {
    size_t each = y.size() / samples;
    float u = random_uniform(address.key, address.first_sample + i / each, i % each);
    y[i] = static_cast<double>(u) < p ? 0 : y[i] / (1 - p);
  }
  return {from_vector(y, in[0].shape())};
}

OpSample sample(const char* name, const Shape& shape, double p) {
  return {.name = name,
          .inputs = {uniform(shape, -2, 2, RandomKey{1}, {.dtype = Dtype::float64})},
          .run = [p](const Tensors& in) { return run(in, p); },
          .reference = [p](const Tensors& in) { return reference(in, p); }};
}

OpSample batched(OpSample sample) {
  sample.batched = {0};
  return sample;
}

}  // namespace

TEST_CASE("dropout: spec") {
  check_op({.op = "dropout",
            .samples = {batched(sample("features", {4, 35}, 0.3)),
                        batched(sample("images", {2, 3, 3, 5}, 0.5)), sample("vector", {11}, 0.9),
                        sample("scalar", {}, 0.5), sample("nothing is kept", {3, 4}, 1)},
            .errors = {{[] { dropout(zeros({2}), {.p = -0.1}); },
                        "dropout: expected p in [0, 1], got -0.1"},
                       {[] { dropout(zeros({2}), {.p = NAN}); }, "expected p in [0, 1]"},
                       {[] { dropout(zeros({2}, {.dtype = Dtype::int32})); },
                        "dropout: expected a floating dtype, got int32"}}});
}

TEST_CASE("dropout: drops with chance p and keeps the mean") {
  for (double p : {0.1, 0.5, 0.8}) {
    autograd::RandomScope scope(kSeed, 0);
    constexpr int64_t kCount = 1 << 20;
    double kept = 0, sum = 0;
    for (float v : dropout(ones({4, kCount / 4}), {.p = p}).to_vector<float>()) {
      kept += v != 0;
      sum += static_cast<double>(v);
    }
    // Five standard deviations of a binomial.
    double off = 5 * std::sqrt(p * (1 - p) / kCount);
    CHECK(std::abs(kept / kCount - (1 - p)) < off);
    CHECK(std::abs(sum / kCount - 1) < off / (1 - p) + 1e-6);
  }
}

TEST_CASE("dropout: the mask does not depend on how the batch is split") {
  Tensor x = ones({6, 5, 9});
  auto masked = [](const Tensor& part, uint64_t first_sample) {
    autograd::RandomScope scope(kSeed, 3, first_sample);
    return dropout(part).to_vector<float>();
  };
  std::vector<float> whole = masked(x, 0), first = masked(ones({2, 5, 9}), 0),
                     rest = masked(ones({4, 5, 9}), 2);
  first.insert(first.end(), rest.begin(), rest.end());
  CHECK(whole == first);
}

TEST_CASE("dropout: gradients pass where values did") {
  Tensor x = ones({3, 50}).set_requires_grad();
  Tensor y = dropout(x, {.p = 0.4});
  backward(y, {.grad = ones({3, 50})});
  CHECK(x.grad().to_vector<float>() == y.to_vector<float>());
}

TEST_CASE("dropout: calls draw masks of their own") {
  autograd::RandomScope scope(kSeed, 0);
  Tensor x = ones({2, 64});
  CHECK(dropout(x).to_vector<float>() != dropout(x).to_vector<float>());
}

TEST_CASE("dropout: evaluation is the input itself") {
  Tensor x = ones({2, 3});
  CHECK(dropout(x, {.training = false}).is_same(x));
  CHECK(dropout(x, {.p = 0}).is_same(x));
}

}  // namespace brim
