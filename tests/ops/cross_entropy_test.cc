#include "brim/ops/cross_entropy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

// Inputs of the samples: logits, labels or distributions, perhaps the weight of the classes.
Tensors reference(const Tensors& in, const CrossEntropyOptions& options) {
  bool labelled = in[1].dtype() == Dtype::int64;
  std::vector<double> x = in[0].to_vector<double>(), target = in[1].to_vector<double>(), losses;
  auto classes = static_cast<size_t>(in[0].size(-1));
  std::vector<double> weight(classes, 1.0);
  if (in.size() > 2) weight = in[2].to_vector<double>();
  double total = 0, counted = 0;
  for (size_t i = 0; i * classes < x.size(); ++i) {
    const double* row = x.data() + i * classes;
    bool counts = !labelled || target[i] != static_cast<double>(options.ignore_index);
    double sum = 0, loss = 0;
    const double most = *std::max_element(row, row + classes);
    for (size_t c = 0; c < classes; ++c) sum += std::exp(row[c] - most);
    for (size_t c = 0; c < classes && counts; ++c) {
      double q = labelled ? static_cast<double>(c) == target[i] : target[i * classes + c];
      q = (1 - options.label_smoothing) * q + options.label_smoothing / in[0].size(-1);
      if (q != 0) loss -= weight[c] * q * (row[c] - most - std::log(sum));
    }
    losses.push_back(loss);
    total += loss;
    counted += !labelled ? 1 : counts ? weight[static_cast<size_t>(target[i])] : 0;
  }
  Shape outer(std::span(in[0].shape().begin(), static_cast<size_t>(in[0].dim() - 1)));
  if (options.reduction == Reduction::none) return {from_vector(losses, outer)};
  if (options.reduction == Reduction::mean) total /= counted;
  if (options.reduction == Reduction::batch_mean) total /= static_cast<double>(in[0].size(0));
  return {full({}, total, {.dtype = Dtype::float64})};
}

OpSample sample_of(const char* name, Tensors inputs, const CrossEntropyOptions& options) {
  int64_t terms = inputs[0].numel();
  return {.name = name,
          .inputs = std::move(inputs),
          .run =
              [=](const Tensors& in) {
                CrossEntropyOptions with = options;
                if (in.size() > 2) with.weight = in[2];
                return Tensors{cross_entropy(in[0], in[1], with)};
              },
          .reference = [=](const Tensors& in) { return reference(in, options); },
          .reduction = terms,
          .no_grad = {2},
          .wide = {2}};
}

Tensor random(const Shape& shape, float low, float high, uint64_t key) {
  return uniform(shape, low, high, RandomKey{key}, {.dtype = Dtype::float64});
}

OpSample sample(const char* name, const Shape& logits, const std::vector<int64_t>& labels,
                const CrossEntropyOptions& options) {
  Shape outer(std::span(logits.begin(), static_cast<size_t>(logits.size() - 1)));
  return sample_of(name, {random(logits, -3, 3, 1), from_vector(labels, outer)}, options);
}

// Rows need not sum to 1, and do not here.
OpSample distributions(const char* name, const Shape& shape, const CrossEntropyOptions& options) {
  return sample_of(name, {random(shape, -3, 3, 1), random(shape, 0, 0.5f, 2)}, options);
}

OpSample weighted(OpSample sample) {
  sample.inputs.push_back(random({sample.inputs[0].size(-1)}, 0.5f, 3, 3));
  return sample;
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
       .samples =
           {sample("mean", {4, 5}, {0, 4, 2, 2}, {}),
            batched(sample("sum", {4, 5}, {0, 4, 2, 2}, {.reduction = Reduction::sum})),
            batched(sample("none", {4, 5}, {0, 4, 2, 2}, {.reduction = Reduction::none})),
            sample("smoothing", {4, 5}, {0, 4, 2, 2}, {.label_smoothing = 0.1}),
            sample("ignored", {5, 3}, {0, -100, 2, -100, 1}, {.label_smoothing = 0.2}),
            sample("ignored class", {2, 2, 3}, {0, 1, 2, 0},
                   {.ignore_index = 0, .reduction = Reduction::none}),
            sample("all smoothed away", {2, 3}, {0, 2}, {.label_smoothing = 1}),
            sample("one row", {6}, {3}, {}), sample("one class", {3, 1}, {0, 0, 0}, {}),
            sample("batch mean", {2, 2, 3}, {0, 1, -100, 2}, {.reduction = Reduction::batch_mean}),
            weighted(sample("weights", {4, 5}, {0, 4, 2, 2}, {})),
            weighted(sample("weights, smoothing, ignored", {5, 3}, {0, -100, 2, -100, 1},
                            {.label_smoothing = 0.2})),
            weighted(batched(sample("weights, none", {4, 5}, {0, 4, 2, 2},
                                    {.label_smoothing = 0.1, .reduction = Reduction::none}))),
            distributions("distributions", {4, 5}, {}),
            batched(distributions("distributions, sum", {4, 5}, {.reduction = Reduction::sum})),
            batched(distributions("distributions, none", {2, 2, 3},
                                  {.label_smoothing = 0.1, .reduction = Reduction::none})),
            weighted(distributions("distributions, weights", {4, 5}, {.label_smoothing = 0.2}))},
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
                     cross_entropy(zeros({2, 3}), labels({0, 0}), {.weight = ones({2})});
                   },
                   "cross_entropy: expected weight of shape [3] for input [2,3], got [2]"},
                  {[] {
                     cross_entropy(zeros({2, 3}), zeros({2}));
                   },
                   "cross_entropy: expected distributions of shape [2,3] for input [2,3], got "
                   "[2]"},
                  {[] {
                     cross_entropy(zeros({3}), zeros({}, {.dtype = Dtype::int64}),
                                   {.reduction = Reduction::batch_mean});
                   },
                   "cross_entropy: expected an axis of samples for batch_mean, got logits [3]"},
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

TEST_CASE("cross_entropy: labels are the distributions that are 1 there") {
  Tensor x = uniform({3, 4}, -2, 2, RandomKey{1}, {.dtype = Dtype::float64});
  Tensor one_hot = from_vector<double>({0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0}, {3, 4});
  CrossEntropyOptions options{.label_smoothing = 0.1, .reduction = Reduction::none};
  auto by_label = cross_entropy(x, labels({2, 0, 1}), options).to_vector<double>();
  auto by_class = cross_entropy(x, one_hot, options).to_vector<double>();
  // Sums of four terms of at most 6 in another order.
  for (size_t i = 0; i < by_label.size(); ++i)
    CHECK(std::abs(by_label[i] - by_class[i]) < 4 * 6 * epsilon(Dtype::float64));
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
