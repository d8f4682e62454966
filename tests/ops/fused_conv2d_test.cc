#include "brim/ops/fused_conv2d.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "brim/ops/fused_library.h"
#include "brim/tests/support/convolution_reference.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

Tensor random(const Shape& shape, uint64_t key) {
  return uniform(shape, -1, 1, RandomKey{key}, {.dtype = Dtype::float64});
}

double activated(Activation activation, double x) {
  const double clipped = std::min(std::max(x + 3, 0.0), 6.0);
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::relu6:
      return std::min(std::max(x, 0.0), 6.0);
    case Activation::hardswish:
      return x * clipped / 6;
  }
  return x;
}

struct Case {
  const char* name;
  Shape x, weight;
  Conv2dOptions window = {};
  Activation activation = Activation::relu;
  bool bias = true, residual = false;
};

/// Inputs: x, weight, and of bias and residual what there is.
FusedConv2dOptions options_of(const Case& c, const Tensors& in) {
  return {.window = c.window,
          .residual = c.residual ? in.back() : Tensor(),
          .activation = c.activation};
}

/// By loops and formulas in double.
Tensors reference(const Case& c, const Tensors& in) {
  const Tensor sums =
      testing::convolution_reference(in[0], in[1], c.bias ? in[2] : Tensor(), c.window);
  std::vector<double> values = sums.to_vector<double>(), residual(values.size());
  if (c.residual) residual = in.back().to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = activated(c.activation, values[i] + residual[i]);
  return {from_vector(values, sums.shape())};
}

OpSample sample(const Case& c) {
  Tensors inputs{random(c.x, 1), random(c.weight, 2)};
  if (c.bias) inputs.push_back(random({c.weight[0]}, 3));
  if (c.residual) inputs.push_back(random(conv2d_shape(c.x, c.weight, c.window), 4));
  std::vector<int> batched{0};
  if (c.residual) batched.push_back(static_cast<int>(inputs.size()) - 1);
  return {.name = c.name,
          .inputs = inputs,
          .run =
              [c](const Tensors& in) {
                return Tensors{
                    fused_conv2d(in[0], in[1], c.bias ? in[2] : Tensor(), options_of(c, in))};
              },
          .reference = [c](const Tensors& in) { return reference(c, in); },
          .reduction = c.weight[1] * c.weight[2] * c.weight[3] + 2,
          .differentiable = false,
          .batched = batched};
}

constexpr Activation kNone = Activation::none, kRelu = Activation::relu, kRelu6 = Activation::relu6,
                     kHardswish = Activation::hardswish;

const std::vector<Case> kCases = {
    {"3x3 relu", {2, 5, 6, 16}, {32, 3, 3, 16}, {.padding = 1}, kRelu},
    {"3x3 relu6", {2, 5, 6, 16}, {32, 3, 3, 16}, {.padding = 1}, kRelu6},
    {"3x3 hardswish", {2, 5, 6, 16}, {32, 3, 3, 16}, {.padding = 1}, kHardswish},
    {"3x3 nothing", {2, 5, 6, 3}, {4, 3, 3, 3}, {.stride = 2, .padding = 1}, kNone, false},
    {"3x3 residual", {2, 5, 6, 16}, {32, 3, 3, 16}, {.padding = 1}, kRelu, true, true},
    {"1x1 residual alone", {2, 5, 6, 16}, {32, 1, 1, 16}, {}, kNone, false, true},
    {"1x1 residual, hardswish", {2, 5, 6, 9}, {7, 1, 1, 9}, {}, kHardswish, true, true},
    {"1x1 residual, relu6", {1, 8, 8, 64}, {64, 1, 1, 64}, {}, kRelu6, true, true},
    {"stem", {1, 11, 10, 3}, {8, 7, 7, 3}, {.stride = 2, .padding = 3}},
    {"groups", {1, 4, 5, 32}, {32, 3, 3, 8}, {.padding = 1, .groups = 4}, kRelu, true, true},
    {"depthwise", {2, 7, 19, 9}, {9, 3, 3, 1}, {.padding = 1, .groups = 9}, kRelu6},
    {"depthwise, hardswish",
     {1, 8, 8, 33},
     {33, 5, 5, 1},
     {.padding = 2, .groups = 33},
     kHardswish},
    {"depthwise, residual",
     {1, 8, 8, 16},
     {16, 3, 3, 1},
     {.padding = 1, .groups = 16},
     kRelu,
     true,
     true},
    {"few pixels", {1, 3, 3, 256}, {257, 1, 1, 256}, {}, kRelu},
    {"few pixels, residual",
     {1, 2, 2, 64},
     {128, 3, 3, 64},
     {.padding = 1},
     kHardswish,
     true,
     true},
    {"no outputs", {1, 4, 4, 3}, {0, 3, 3, 3}, {}, kRelu, false},
};

const std::vector<ErrorCase> kErrors = {
    {[] {
       fused_conv2d(zeros({1, 5, 5, 4}), zeros({6, 3, 3, 4}), Tensor(),
                    {.residual = zeros({1, 5, 5, 6})});
     },
     "expected a residual of shape [1,3,3,6], got [1,5,5,6]"},
    {[] {
       fused_conv2d(zeros({1, 5, 5, 4}), zeros({6, 3, 3, 4}), Tensor(),
                    {.residual = zeros({1, 3, 3, 6}, {.dtype = Dtype::float64})});
     },
     "expected one dtype, got float32 and float64"},
    {[] {
       Tensor x = zeros({1, 5, 5, 4}, {.dtype = Dtype::int32});
       fused_conv2d(x, x, Tensor());
     },
     "expected a floating dtype, got int32"},
    {[] {
       fused_conv2d(zeros({1, 5, 5, 4}), zeros({6, 3, 3, 4}).set_requires_grad(), Tensor());
     },
     "is for inference: call conv2d, add and the activation where a gradient is wanted"},
};

}  // namespace

TEST_CASE("fused_conv2d: spec") {
  OpSpec spec{.op = "fused_conv2d", .errors = kErrors};
  for (const Case& c : kCases) spec.samples.push_back(sample(c));
  check_op(spec);
}

TEST_CASE("fused_conv2d: a packed weight gives the same bits, and is made once") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    Tensors in;
    for (const Tensor& input : sample(c).inputs)
      in.push_back(convert_to(input, {.dtype = Dtype::float32}));
    FusedConv2dOptions options = options_of(c, in);
    const Tensor bias = c.bias ? in[2] : Tensor();
    const auto plain = fused_conv2d(in[0], in[1], bias, options).to_vector<float>();
    PackedWeight packed;
    options.packed = &packed;
    for (int i = 0; i < 3; ++i)
      CHECK(fused_conv2d(in[0], in[1], bias, options).to_vector<float>() == plain);
    // A write is seen, and another weight too.
    fill(in[1], 0.5);
    const auto of_halves = fused_conv2d(in[0], in[1], bias, options).to_vector<float>();
    options.packed = nullptr;
    CHECK(of_halves == fused_conv2d(in[0], in[1], bias, options).to_vector<float>());
    options.packed = &packed;
    const Tensor fresh = full(c.weight, 0.25);
    const auto of_quarters = fused_conv2d(in[0], fresh, bias, options).to_vector<float>();
    options.packed = nullptr;
    CHECK(of_quarters == fused_conv2d(in[0], fresh, bias, options).to_vector<float>());
  }
}

TEST_CASE("fused_conv2d: the weight is packed at the first call alone") {
  struct Packings final : LaunchObserver {
    int count = 0;
    void launched(const LaunchEvent& event) override {
      count += std::string_view(event.kernel) == "pack_weight";
    }
  } packings;
  const LaunchObserverScope scope(packings);
  const Tensor x = ones({1, 8, 8, 64}), weight = ones({64, 3, 3, 64});
  PackedWeight packed;
  const FusedConv2dOptions options{.window = {.padding = 1}, .packed = &packed};
  for (int i = 0; i < 3; ++i) fused_conv2d(x, weight, Tensor(), options);
  // None where oneDNN reads it as it is, or brim's own kernel does it.
  const onednn::PrimitivePtr library =
      fused_library({x.shape(), weight.shape(), x.shape(), options.window}, false, {});
  const int first = library != nullptr && onednn::packed_bytes(*library) > 0 ? 1 : 0;
  CHECK(packings.count == first);
  fill(weight, 2);
  fused_conv2d(x, weight, Tensor(), options);
  CHECK(packings.count == 2 * first);
}

}  // namespace brim
