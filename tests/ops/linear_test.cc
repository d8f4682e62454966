#include "brim/ops/linear.h"

#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/tests/support/compare.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

Tensors reference(const Tensors& in) {
  auto x = in[0].to_vector<double>(), weight = in[1].to_vector<double>();
  auto bias = in.size() > 2 ? in[2].to_vector<double>() : std::vector<double>();
  auto features = static_cast<size_t>(in[1].size(1)), outputs = static_cast<size_t>(in[1].size(0));
  Shape shape = in[0].shape();
  shape[shape.size() - 1] = in[1].size(0);
  std::vector<double> y;
  for (size_t row = 0; row < static_cast<size_t>(numel(shape)) / std::max<size_t>(outputs, 1);
       ++row)
    for (size_t o = 0; o < outputs; ++o) {
      double sum = bias.empty() ? 0 : bias[o];
      for (size_t i = 0; i < features; ++i) sum += x[row * features + i] * weight[o * features + i];
      y.push_back(sum);
    }
  return {from_vector(y, shape)};
}

OpSample sample(const char* name, const Shape& x, int64_t outputs, bool bias) {
  auto random = [](const Shape& shape, uint64_t key) {
    return uniform(shape, -1, 1, RandomKey{key}, {.dtype = Dtype::float64});
  };
  int64_t features = x.back(), rows = features == 0 ? 1 : numel(x) / features;
  Tensors inputs{random(x, 1), random({outputs, features}, 2)};
  if (bias) inputs.push_back(random({outputs}, 3));
  OpSample sample{.name = name,
                  .inputs = inputs,
                  .run =
                      [](const Tensors& in) {
                        return Tensors{linear(in[0], in[1], in.size() > 2 ? in[2] : Tensor())};
                      },
                  .reference = reference,
                  .reduction = features + 1,
                  .backward_reduction = std::max(outputs, rows)};
  if (x.size() > 1) sample.batched = {0};
  return sample;
}

}  // namespace

TEST_CASE("linear: spec") {
  check_op(
      {.op = "linear",
       .samples = {sample("bias", {5, 7}, 3, true), sample("no bias", {4, 9}, 10, false),
                   sample("vector", {6}, 4, true), sample("leading axes", {2, 3, 5}, 4, true),
                   sample("one output", {3, 4}, 1, true), sample("long", {3, 300}, 5, true),
                   sample("many rows", {40, 3}, 17, true), sample("no rows", {0, 4}, 3, true),
                   sample("no features", {2, 0}, 3, true), sample("no outputs", {2, 4}, 0, true)},
       .errors = {{[] {
                     linear(zeros({2, 5}), zeros({3, 4}), Tensor());
                   },
                   "linear: expected input features 4 to match weight [3,4], got input [2,5]"},
                  {[] {
                     linear(zeros({}), zeros({3, 4}), Tensor());
                   },
                   "expected input [...,in]"},
                  {[] {
                     linear(zeros({2, 5}), zeros({5}), Tensor());
                   },
                   "expected weight [out,in], got [5]"},
                  {[] {
                     linear(zeros({2, 4}), zeros({3, 4}), zeros({4}));
                   },
                   "expected bias of shape [3] to match weight [3,4], got [4]"},
                  {[] {
                     linear(zeros({2, 4}), zeros({3, 4}, {.dtype = Dtype::float64}), Tensor());
                   },
                   "expected one dtype, got float32 and float64"},
                  {[] {
                     Tensor x = zeros({4, 4}, {.dtype = Dtype::int64});
                     linear(x, x, Tensor());
                   },
                   "expected a floating dtype, got int64"}}});
}

TEST_CASE("linear: the classifier of ResNet-50, float32 against float64") {
  auto run = [](Dtype dtype) {
    auto make = [&](const Shape& shape, uint64_t key) {
      Tensor t = convert_to(normal(shape, 1, RandomKey{key}), {.dtype = dtype});
      return t.set_requires_grad();
    };
    Tensor x = make({16, 2048}, 1), weight = make({1000, 2048}, 2), bias = make({1000}, 3);
    Tensor y = linear(x, weight, bias);
    backward(y, {.grad = make({16, 1000}, 4).detach()});
    return Tensors{y.detach(), x.grad(), weight.grad(), bias.grad()};
  };
  Tensors got = run(Dtype::float32), expected = run(Dtype::float64);
  // Sums of n standard normal products, in blocks of 256 terms: 2 u (2 + sqrt(n)) sqrt(n) is
  // beyond five deviations of the rounding errors (see tests/ops/conv2d_test.cc).
  double terms[] = {2049, 1000, 16, 16};
  for (size_t i = 0; i < got.size(); ++i) {
    double root = std::sqrt(terms[i]);
    std::vector<double> allowed(static_cast<size_t>(got[i].numel()),
                                0x1p-24 * (4 + 2 * root) * 2 * root);
    CHECK(testing::worst_error(got[i], expected[i].to_vector<double>(), allowed) == "");
  }
}

// Kernels of their own, which leave the weight and its gradient where they lie (ops/cpu/matmul.cc):
// of at most 64 rows, and of at most 16 for the gradient.
TEST_CASE("linear: a few rows with many weights") {
  constexpr int64_t kIn = 300, kOut = 221;
  for (const Dtype dtype : {Dtype::float32, Dtype::float64})
    for (const int64_t rows : {1, 3, 16, 17, 64, 65}) {
      CAPTURE(rows);
      const OpSample few = sample("few rows", {rows, kIn}, kOut, true);
      Tensors in;
      for (const Tensor& input : few.inputs)
        in.push_back(convert_to(input, {.dtype = dtype}).set_requires_grad());
      const Tensor y = few.run(in)[0];
      // Partial sums of n <= 301 products with a deviation of 1/3 walk up to sqrt(n) / 3. What n
      // additions round off comes to a deviation of u n / (3 sqrt(6)), 41 u at the most, where they
      // are added one after the other: the bound is beyond ten of these.
      const double most = (dtype == Dtype::float32 ? 0x1p-24 : 0x1p-53) * 40 * 18;
      auto check = [&](const Tensor& got, const std::vector<double>& expected) {
        CHECK(testing::worst_error(got, expected, std::vector<double>(expected.size(), most)) ==
              "");
      };
      check(y.detach(),
            reference({in[0].detach(), in[1].detach(), in[2].detach()})[0].to_vector<double>());

      const Tensor dy = convert_to(uniform({rows, kOut}, -1, 1, RandomKey{4}), {.dtype = dtype});
      backward(y, {.grad = dy});
      const auto d = dy.to_vector<double>(), x = in[0].detach().to_vector<double>(),
                 w = in[1].detach().to_vector<double>();
      std::vector<double> dx(x.size()), dw(w.size());
      for (int64_t n = 0; n < rows; ++n)
        for (int64_t k = 0; k < kOut; ++k)
          for (int64_t c = 0; c < kIn; ++c) {
            dx[n * kIn + c] += d[n * kOut + k] * w[k * kIn + c];
            dw[k * kIn + c] += d[n * kOut + k] * x[n * kIn + c];
          }
      check(in[0].grad(), dx);
      check(in[1].grad(), dw);
    }
}

TEST_CASE("linear: the bias gradient of many rows is summed in double and rounded once") {
  int64_t rows = 100000;
  Tensor x = zeros({rows, 1}), weight = zeros({2, 1}), bias = zeros({2});
  bias.set_requires_grad();
  Tensor y = linear(x, weight, bias);
  backward(y, {.grad = full(y.shape(), 0.1)});
  double expected = static_cast<double>(0.1f) * static_cast<double>(rows);
  for (float got : bias.grad().to_vector<float>())
    CHECK(std::abs(got - expected) <= (0x1p-24 + static_cast<double>(rows) * 0x1p-53) * expected);
}

}  // namespace brim
