#include "brim/ops/squeeze_excitation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>

#include "brim/autograd/backward.h"
#include "brim/autograd/in_place.h"
#include "brim/autograd/input_rule.h"
#include "brim/base/parallel.h"
#include "brim/core/row_view.h"
#include "brim/ops/autocast.h"
#include "brim/ops/cast.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/global_avg_pool.h"
#include "brim/ops/hardsigmoid.h"
#include "brim/ops/mul.h"
#include "brim/ops/relu.h"
#include "brim/ops/reshape.h"
#include "brim/tests/support/compare.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

Tensor run(const Tensors& in) { return squeeze_excitation(in[0], in[1], in[2], in[3], in[4]); }

// What it is one op for.
Tensor composed(const Tensors& in) {
  Tensor gate = reshape(global_avg_pool(in[0]), {in[0].size(0), 1, 1, in[0].size(3)});
  gate = hardsigmoid(conv2d(relu(conv2d(gate, in[1], in[2])), in[3], in[4]));
  return mul(in[0], gate);
}

// activation(weight v + bias), of one image.
template <class Activation>
std::vector<double> product(const std::vector<double>& weight, const std::vector<double>& bias,
                            const std::vector<double>& v, const Activation& activation) {
  std::vector<double> result = bias;
  for (size_t i = 0; i < bias.size(); ++i) {
    for (size_t j = 0; j < v.size(); ++j) result[i] += weight[i * v.size() + j] * v[j];
    result[i] = activation(result[i]);
  }
  return result;
}

Tensors reference(const Tensors& in) {
  const auto channels = static_cast<size_t>(in[0].size(3));
  const auto size = static_cast<size_t>(in[0].size(1) * in[0].size(2)) * channels;
  std::vector<double> y = in[0].to_vector<double>(), of[5];
  for (size_t i = 1; i < 5; ++i) of[i] = in[i].to_vector<double>();
  for (size_t image = 0; image < y.size(); image += size) {
    std::vector<double> mean(channels);
    for (size_t i = 0; i < size; ++i)
      mean[i % channels] +=
          y[image + i] * static_cast<double>(channels) / static_cast<double>(size);
    const std::vector<double> gate = product(
        of[3], of[4], product(of[1], of[2], mean, [](double z) { return std::max(z, 0.0); }),
        [](double z) { return std::clamp(z + 3, 0.0, 6.0) / 6; });
    for (size_t i = 0; i < size; ++i) y[image + i] *= gate[i % channels];
  }
  return {from_vector(y, in[0].shape())};
}

Tensor random(const Shape& shape, double size, uint64_t key, Dtype dtype) {
  return uniform(shape, -size, size, RandomKey{key}, {.dtype = dtype});
}

// Weights whose products with values up to 1 are about as large as `size`.
Tensor weight(const Shape& shape, double size, uint64_t key, Dtype dtype) {
  const double terms = static_cast<double>(std::max<int64_t>(shape[3], 1));
  return random(shape, size / std::sqrt(terms), key, dtype);
}

// Gates on both sides of both kinks, and between.
Tensors random_inputs(const Shape& x, int64_t squeezed, Dtype dtype = Dtype::float64) {
  const int64_t channels = x[3];
  return {random(x, 2, 1, dtype), weight({squeezed, 1, 1, channels}, 2, 2, dtype),
          random({squeezed}, 0.5, 3, dtype), weight({channels, 1, 1, squeezed}, 2, 4, dtype),
          random({channels}, 4, 5, dtype)};
}

// [count], the numbers one after the other again and again.
Tensor repeated(const std::vector<double>& numbers, int64_t count) {
  std::vector<double> values;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i)
    values.push_back(numbers[i % numbers.size()]);
  return from_vector(values, {count});
}

// The same far enough from the kinks that halves do not cross them: biases choose the side. What
// they are added to, sums of random signs, stays below 2 and below 2.75.
Tensors inputs_off_kinks(const Shape& x, int64_t squeezed) {
  Tensors in = random_inputs(x, squeezed);
  in[1] = weight(in[1].shape(), 0.5, 2, Dtype::float64);
  in[2] = repeated({2, -2, 2.5}, squeezed);
  in[3] = weight(in[3].shape(), 0.5, 4, Dtype::float64);
  in[4] = repeated({0, 6.5, 0.25, -6.5, -0.25}, x[3]);
  return in;
}

OpSample sample(const char* name, const Shape& x, int64_t squeezed) {
  // Sums of sums: the logarithms of their lengths add up.
  const int64_t terms = std::max<int64_t>(x[1] * x[2] * x[3] * squeezed, 1);
  return {.name = name,
          .inputs = inputs_off_kinks(x, squeezed),
          .run = [](const Tensors& in) { return Tensors{run(in)}; },
          .reference = reference,
          .reduction = terms,
          .backward_reduction = terms * x[0],
          .batched = {0},
          .wide = {1, 2, 3, 4}};
}

struct Gradients {
  explicit Gradients(const Tensors& values, Tensor (*op)(const Tensors&)) {
    Tensors in;
    for (const Tensor& value : values) in.push_back(clone(value).set_requires_grad());
    all = {op(in)};
    backward(all[0],
             {.grad = uniform(in[0].shape(), -1, 1, RandomKey{9}, {.dtype = in[0].dtype()})});
    for (const Tensor& leaf : in) all.push_back(leaf.grad());
  }
  Tensors all;  // y, then those of the inputs
};

void check_same_bits(const Tensors& got, const Tensors& expected) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    CHECK_MESSAGE(testing::bit_difference(got[i], expected[i]) == "", "tensor ", i);
}

struct Calls final : autograd::OpObserver {
  void ran(const autograd::OpEvent& event) override {
    if (event.phase == autograd::Phase::forward) ++of[event.op.name()];
  }
  std::map<std::string, int> of;
};

// Shapes of MobileNet V3.
const std::pair<Shape, int64_t> kLayers[] = {
    {{3, 28, 28, 72}, 24}, {{5, 14, 14, 480}, 120}, {{18, 7, 7, 960}, 240}, {{2, 9, 7, 61}, 16}};

}  // namespace

TEST_CASE("squeeze_excitation: spec") {
  auto call = [](const Shape& x, const Shape& weight1, const Shape& bias1, const Shape& weight2,
                 const Shape& bias2) {
    return [=] {
      squeeze_excitation(ones(x), ones(weight1), ones(bias1), ones(weight2), ones(bias2));
    };
  };
  const Shape x{2, 3, 3, 4}, weight1{2, 1, 1, 4}, weight2{4, 1, 1, 2};
  check_op(
      {.op = "squeeze_excitation",
       .samples = {sample("images", {2, 3, 5, 6}, 3), sample("vectors", {2, 4, 4, 32}, 16),
                   sample("half a vector more", {3, 3, 3, 24}, 8),
                   sample("odd channels", {2, 3, 3, 37}, 5), sample("one pixel", {2, 1, 1, 4}, 2),
                   sample("several groups of images", {19, 2, 2, 8}, 4),
                   sample("many pixels", {1, 20, 20, 8}, 3),
                   sample("more channels than a block", {1, 2, 2, 1040}, 2),
                   sample("rows that collide", {1, 2, 3, 1024}, 2),
                   sample("no channels", {2, 3, 3, 0}, 2)},
       .errors = {{call({2, 4}, weight1, {2}, weight2, {4}),
                   "squeeze_excitation: expected an input [N,H,W,C] with at least one pixel, "
                   "got [2,4]"},
                  {call({2, 0, 3, 4}, weight1, {2}, weight2, {4}), "got [2,0,3,4]"},
                  {call(x, {2, 1, 1, 5}, {2}, weight2, {4}),
                   "squeeze_excitation: expected weight1 [S,1,1,4] to match input [2,3,3,4], "
                   "got [2,1,1,5]"},
                  {call(x, {2, 4}, {2}, weight2, {4}), "got [2,4]"},
                  {call(x, weight1, {3}, weight2, {4}),
                   "squeeze_excitation: expected bias1 of shape [2], got [3]"},
                  {call(x, weight1, {2}, {4, 1, 1, 3}, {4}),
                   "squeeze_excitation: expected weight2 of shape [4,1,1,2], got [4,1,1,3]"},
                  {call(x, weight1, {2}, weight2, {1}),
                   "squeeze_excitation: expected bias2 of shape [4], got [1]"},
                  {[=] {
                     squeeze_excitation(zeros(x, {.dtype = Dtype::int32}), ones(weight1), ones({2}),
                                        ones(weight2), ones({4}));
                   },
                   "squeeze_excitation: expected a floating dtype, got int32"},
                  {[=] {
                     squeeze_excitation(ones(x), ones(weight1),
                                        ones({2}, {.dtype = Dtype::float64}), ones(weight2),
                                        ones({4}));
                   },
                   "squeeze_excitation: expected one dtype, got float32 and float64"},
                  {[=] {
                     squeeze_excitation(ones(x, {.dtype = Dtype::float16}), ones(weight1),
                                        ones({2}, {.dtype = Dtype::float16}), ones(weight2),
                                        ones({4}));
                   },
                   "squeeze_excitation: expected one dtype, got float32 and float16"},
                  {[=] {
                     squeeze_excitation(ones(x, {.dtype = Dtype::float16}),
                                        ones(weight1, {.dtype = Dtype::float64}), ones({2}),
                                        ones(weight2), ones({4}));
                   },
                   "squeeze_excitation: expected one dtype, got float16 and float64"}}});
}

TEST_CASE("squeeze_excitation: as the plain composition on the layers of a model") {
  for (const auto& [shape, squeezed] : kLayers) {
    CAPTURE(to_string(shape));
    const Tensors in = random_inputs(shape, squeezed);
    const Gradients got(in, run), expected(in, composed);
    // Of sums of n terms in float64, added one after the other at worst: n roundings of terms that
    // are of the size of the result, or of 1 where they cancel.
    const double terms = static_cast<double>(shape[1] * shape[2] + shape[3] + squeezed + shape[0]);
    for (size_t t = 0; t < got.all.size(); ++t) {
      const auto a = got.all[t].to_vector<double>(), b = expected.all[t].to_vector<double>();
      double worst = 0, largest = 1;
      for (double value : b) largest = std::max(largest, std::abs(value));
      for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
      CHECK_MESSAGE(worst < terms * epsilon(Dtype::float64) * largest, "tensor ", t);
    }
  }
}

TEST_CASE("squeeze_excitation: results do not depend on the number of threads") {
  for (const auto& [shape, squeezed] : kLayers) {
    CAPTURE(to_string(shape));
    const int threads = num_threads();
    for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
      Tensors in = random_inputs(shape, squeezed, Dtype::float32);
      in[0] = cast(in[0], dtype);
      set_num_threads(1);
      const Gradients one(in, run);
      for (int several : {2, 3, 7}) {
        set_num_threads(several);
        check_same_bits(Gradients(in, run).all, one.all);
      }
    }
    set_num_threads(threads);
  }
}

TEST_CASE("squeeze_excitation: an image does not depend on the others") {
  for (const auto& [shape, squeezed] : kLayers) {
    CAPTURE(to_string(shape));
    Tensors in = random_inputs(shape, squeezed, Dtype::float32);
    const Tensor all = run(in);
    in[0] = row_view(in[0], 1, 2);
    CHECK(testing::bit_difference(run(in), row_view(all, 1, 2)) == "");
  }
}

TEST_CASE("squeeze_excitation: large results are stored past the caches with the same bits") {
  for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
    Tensors in = random_inputs({8, 112, 112, 128}, 8, Dtype::float32);
    in[0] = cast(in[0], dtype);  // at least 25 MB
    const Tensor dy = uniform(in[0].shape(), -1, 1, RandomKey{9}, {.dtype = dtype});
    // The gradient stays with the caller, so that of x has bytes of its own.
    auto differentiate = [&](const Tensor& x, const Tensor& grad) {
      in[0] = clone(x).set_requires_grad();
      Tensor y = run(in);
      backward(y, {.grad = grad});
      return Tensors{y, in[0].grad()};
    };
    const Tensor x = in[0];
    const Tensors all = differentiate(x, dy);
    const Tensors one = differentiate(row_view(x, 2, 3), clone(row_view(dy, 2, 3)));
    for (size_t i : {0, 1}) CHECK(testing::bit_difference(one[i], row_view(all[i], 2, 3)) == "");
  }
}

TEST_CASE("squeeze_excitation: gradients are those that are wanted, whichever they are") {
  const Tensors values = random_inputs({3, 5, 4, 24}, 8, Dtype::float32);
  const Gradients all(values, run);
  for (size_t wanted = 0; wanted < 5; ++wanted) {
    CAPTURE(wanted);
    Tensors in;
    for (const Tensor& value : values) in.push_back(clone(value));
    in[wanted].set_requires_grad();
    Tensor y = run(in);
    backward(y, {.grad = uniform(in[0].shape(), -1, 1, RandomKey{9})});
    CHECK(testing::bit_difference(in[wanted].grad(), all.all[wanted + 1]) == "");
  }
}

TEST_CASE("squeeze_excitation: one op, and the plain composition where there is no kernel for it") {
  const Tensors in = random_inputs({2, 5, 4, 24}, 8, Dtype::float32);
  const std::map<std::string, int> kPlain{
      {"global_avg_pool", 1}, {"reshape", 1}, {"conv2d", 2}, {"relu", 1}, {"mul", 1},
      {"hardsigmoid", 1}};
  {
    Calls calls;
    run(in);
    CHECK(calls.of == std::map<std::string, int>{{"squeeze_excitation", 1}});
  }
  Tensors halves;
  for (const Tensor& tensor : in) halves.push_back(cast(tensor, Dtype::bfloat16));
  {
    Calls calls;
    run(halves);
    CHECK(calls.of == kPlain);
  }
  CHECK(testing::bit_difference(run(halves), composed(halves)) == "");
}

TEST_CASE("squeeze_excitation: under autocast one op, with gates of float32") {
  Tensors in = random_inputs({2, 5, 4, 24}, 8, Dtype::float32);
  in[0] = cast(in[0], Dtype::bfloat16);
  const Tensor expected = run(in);
  CHECK(expected.dtype() == Dtype::bfloat16);
  // The gates are those of the same numbers in float32; rounded is the result alone.
  Tensors wide = in;
  wide[0] = cast(in[0], Dtype::float32);
  CHECK(testing::bit_difference(expected, cast(run(wide), Dtype::bfloat16)) == "");
  Autocast autocast(Dtype::bfloat16);
  {
    Calls calls;
    CHECK(testing::bit_difference(run(in), expected) == "");
    CHECK(calls.of == std::map<std::string, int>{{"squeeze_excitation", 1}});
  }
  // Parameters of halves, some or all, are for the plain composition.
  for (size_t halves : {1, 4}) {
    Tensors others = in;
    for (size_t i = 1; i <= halves; ++i) others[i] = cast(in[i], Dtype::bfloat16);
    CHECK(testing::bit_difference(run(others), composed(others)) == "");
  }
}

TEST_CASE("squeeze_excitation: what a rule makes of its inputs is checked again") {
  struct AllLow final : autograd::InputRule {
    void prepare(const autograd::Op& op, Tensors& inputs, const Where& where) override {
      if (op.name() == std::string("cast")) return;
      for (Tensor& input : inputs) input = cast(input, Dtype::bfloat16, where);
    }
  } rule;
  Tensors in = random_inputs({2, 3, 3, 4}, 2, Dtype::float32);
  in[0] = cast(in[0], Dtype::bfloat16);
  const autograd::InputRuleScope scope(&rule);
  CHECK_THROWS_WITH_AS(run(in),
                       "squeeze_excitation: expected weights of float32 for bfloat16 on a CPU, got "
                       "bfloat16",
                       DtypeError);
}

TEST_CASE("squeeze_excitation: what nobody reads any more is overwritten") {
  Tensors in = random_inputs({2, 5, 4, 24}, 8, Dtype::float32);
  const Tensor expected = run(in);
  autograd::InPlaceScope scope(true);
  const void* before = in[0].data();
  Tensor y = squeeze_excitation(std::move(in[0]), in[1], in[2], in[3], in[4]);
  CHECK(y.data() == before);
  CHECK(testing::bit_difference(y, expected) == "");
}

}  // namespace brim
