#include "brim/ops/cross_entropy.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

Tensors reference(const Tensors& in, const CrossEntropyOptions& options) {
  std::vector<double> x = in[0].to_vector<double>(), losses;
  std::vector<int64_t> labels = in[1].to_vector<int64_t>();
  int64_t classes = in[0].size(-1);
  double total = 0, counted = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const double* row = x.data() + static_cast<int64_t>(i) * classes;
    double sum = 0, loss = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(row[c]);
    for (int64_t c = 0; c < classes; ++c) {
      double target = options.label_smoothing / static_cast<double>(classes) +
                      (c == labels[i] ? 1 - options.label_smoothing : 0);
      loss -= target * (row[c] - std::log(sum));
    }
    bool counts = labels[i] != options.ignore_index;
    losses.push_back(counts ? loss : 0);
    total += losses.back();
    counted += counts;
  }
  if (options.reduction == Reduction::none) return {from_vector(losses, in[1].shape())};
  return {full({}, options.reduction == Reduction::mean ? total / counted : total,
               {.dtype = Dtype::float64})};
}

OpSample sample(const char* name, const Shape& logits, const std::vector<int64_t>& labels,
                const CrossEntropyOptions& options) {
  Shape outer(std::span(logits.begin(), static_cast<size_t>(logits.size() - 1)));
  return {.name = name,
          .inputs = {uniform(logits, -3, 3, RandomKey{1}, {.dtype = Dtype::float64}),
                     from_vector(labels, outer)},
          .run = [=](const Tensors& in) { return Tensors{cross_entropy(in[0], in[1], options)}; },
          .reference = [=](const Tensors& in) { return reference(in, options); },
          .reduction = numel(logits)};
}

OpSample batched(OpSample sample) {
  sample.batched = {0, 1};
  return sample;
}

Tensor labels(const std::vector<int64_t>& values) {
  return from_vector(values, {static_cast<int64_t>(values.size())});
}

}  // namespace

TEST_CASE("cross_entropy: spec") {
  check_op(
      {.op = "cross_entropy",
       .samples = {sample("mean", {4, 5}, {0, 4, 2, 2}, {}),
                   batched(sample("sum", {4, 5}, {0, 4, 2, 2}, {.reduction = Reduction::sum})),
                   batched(sample("none", {4, 5}, {0, 4, 2, 2}, {.reduction = Reduction::none})),
                   sample("smoothing", {4, 5}, {0, 4, 2, 2}, {.label_smoothing = 0.1}),
                   sample("ignored", {5, 3}, {0, -100, 2, -100, 1}, {.label_smoothing = 0.2}),
                   sample("ignored class", {2, 2, 3}, {0, 1, 2, 0},
                          {.ignore_index = 0, .reduction = Reduction::none}),
                   sample("all smoothed away", {2, 3}, {0, 2}, {.label_smoothing = 1}),
                   sample("one row", {6}, {3}, {}), sample("one class", {3, 1}, {0, 0, 0}, {})},
       .errors = {{[] {
                     cross_entropy(zeros({2, 3}), labels({0, 3}));
                   },
                   "cross_entropy: expected labels in [0, 3), got 3 at position 1"},
                  {[] {
                     cross_entropy(zeros({3, 3}), labels({-1, -100, 9}));
                   },
                   "cross_entropy: expected labels in [0, 3), got -1 at position 0"},
                  {[] {
                     cross_entropy(zeros({2, 3}), labels({0}));
                   },
                   "cross_entropy: expected labels [2] for logits [2,3], got [1]"},
                  {[] {
                     cross_entropy(zeros({2, 3}), zeros({2}, {.dtype = Dtype::int32}));
                   },
                   "cross_entropy: expected int64 labels, got int32"},
                  {[] {
                     cross_entropy(zeros({2, 0}), labels({0, 0}));
                   },
                   "with at least one class"},
                  {[] {
                     cross_entropy(zeros({2, 3}), labels({0, 0}), {.label_smoothing = 1.5});
                   },
                   "cross_entropy: expected a label smoothing in [0, 1], got 1.5"},
                  {[] {
                     cross_entropy(zeros({2, 3}, {.dtype = Dtype::int32}), labels({0, 0}));
                   },
                   "cross_entropy: expected a floating dtype, got int32"}}});
}

TEST_CASE("cross_entropy: large logits neither overflow nor lose the gradient") {
  Tensor x = from_vector<float>({1e4f, 0, -1e4f, -1e4f, 0, 1e4f}, {2, 3});
  x.set_requires_grad();
  Tensor loss = cross_entropy(x, labels({1, 2}), {.reduction = Reduction::none});
  CHECK(loss.to_vector<float>() == std::vector<float>{1e4f, 0});
  backward(loss, {.grad = ones({2})});
  CHECK(x.grad().to_vector<float>() == std::vector<float>{1, -1, 0, 0, 0, 0});
}

TEST_CASE("cross_entropy: the mean over no rows is NaN, their gradients are 0") {
  Tensor x = ones({2, 3}).set_requires_grad();
  Tensor loss = cross_entropy(x, labels({-100, -100}));
  CHECK(std::isnan(loss.item<float>()));
  backward(loss);
  CHECK(x.grad().to_vector<float>() == std::vector<float>(6, 0));
  CHECK(std::isnan(cross_entropy(zeros({0, 3}), labels({})).item<float>()));
}

TEST_CASE("cross_entropy: the mean of many rows keeps its digits") {
  // log(2) a million times: a float sum would be off in the fourth digit.
  constexpr int64_t kRows = 1 << 20;
  Tensor loss = cross_entropy(zeros({kRows, 2}), zeros({kRows}, {.dtype = Dtype::int64}));
  CHECK(loss.item<float>() == std::log(2.0f));
}

}  // namespace brim
