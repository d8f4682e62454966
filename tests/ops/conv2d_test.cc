#include "brim/ops/conv2d.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

#include "brim/autograd/backward.h"
#include "brim/ops/conv_shape.h"
#include "brim/tests/support/convolution_reference.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

Tensor random(const Shape& shape, uint64_t key) {
  return uniform(shape, -1, 1, RandomKey{key}, {.dtype = Dtype::float64});
}

struct Case {
  const char* name;
  Shape x, weight;
  Conv2dOptions options = {};
  bool bias = false;
};

OpSample sample(const Case& c) {
  Tensors inputs{random(c.x, 1), random(c.weight, 2)};
  if (c.bias) inputs.push_back(random({c.weight[0]}, 3));
  Conv2dOptions options = c.options;
  Shape y = conv2d_shape(c.x, c.weight, options);
  return {
      .name = c.name,
      .inputs = inputs,
      .run =
          [=](const Tensors& in) {
            return Tensors{conv2d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), options)};
          },
      .reference =
          [=](const Tensors& in) {
            return Tensors{testing::convolution_reference(
                in[0], in[1], in.size() > 2 ? in[2] : Tensor(), options)};
          },
      .reduction = c.weight[1] * c.weight[2] * c.weight[3] + 1,
      .backward_reduction = std::max(y[0] * y[1] * y[2], c.weight[0] * c.weight[1] * c.weight[2]),
      .batched = {0}};
}

const std::vector<Case> kCases = {
    {"3x3", {2, 5, 6, 3}, {4, 3, 3, 3}, {.padding = 1}},
    {"3x3 bias", {2, 5, 4, 8}, {8, 3, 3, 8}, {.padding = 1}, true},
    {"3x3 stride 2", {1, 7, 6, 4}, {5, 3, 3, 4}, {.stride = 2, .padding = 1}},
    {"3x3 stride 2, last row unread", {1, 8, 8, 8}, {8, 3, 3, 8}, {.stride = 2}},
    {"asymmetric",
     {1, 6, 9, 3},
     {4, 2, 3, 3},
     {.stride = {2, 1}, .padding = {0, 2}, .dilation = {1, 2}},
     true},
    {"dilation 2", {1, 7, 8, 4}, {3, 3, 3, 4}, {.padding = 2, .dilation = 2}},
    {"dilation 3, stride 2",
     {1, 9, 9, 2},
     {2, 3, 3, 2},
     {.stride = 2, .padding = 3, .dilation = 3}},
    {"1x1", {2, 4, 3, 9}, {7, 1, 1, 9}, {}, true},
    {"1x1 stride 2", {2, 5, 4, 8}, {16, 1, 1, 8}, {.stride = 2}},
    {"1x1 stride 2, padded", {1, 4, 4, 8}, {8, 1, 1, 8}, {.stride = 2, .padding = 1}},
    {"7x7 stride 2", {1, 11, 10, 3}, {8, 7, 7, 3}, {.stride = 2, .padding = 3}},
    {"window as large as the image", {2, 3, 3, 4}, {5, 3, 3, 4}},
    {"stride beyond the window", {1, 8, 7, 2}, {3, 2, 2, 2}, {.stride = 3}},
    {"2 groups", {2, 5, 5, 6}, {10, 3, 3, 3}, {.padding = 1, .groups = 2}, true},
    {"4 groups of 8", {1, 4, 5, 32}, {32, 3, 3, 8}, {.stride = 2, .padding = 1, .groups = 4}},
    {"groups, two outputs per channel", {1, 5, 5, 4}, {8, 3, 3, 1}, {.padding = 1, .groups = 4}},
    // Weight gradients in tiles: 8 channels and more. Their strips have 256 pixels.
    {"tiles: odd sizes", {3, 8, 7, 12}, {6, 5, 4, 12}, {.padding = {2, 1}}},
    {"tiles: dilation, stride 2",
     {2, 9, 10, 9},
     {5, 3, 3, 9},
     {.stride = 2, .padding = 2, .dilation = 2}},
    {"tiles: strips of rows", {1, 18, 17, 8}, {3, 3, 3, 8}, {.padding = 1}},
    {"tiles: strips of columns", {1, 1, 260, 8}, {3, 3, 3, 8}, {.padding = 1}},
    {"tiles: strips of images", {5, 8, 8, 8}, {3, 2, 2, 8}, {.padding = 1}},
    {"tiles: nothing but padding", {1, 1, 1, 8}, {3, 2, 5, 8}, {.padding = 5}},
    {"depthwise 3x3", {2, 6, 9, 11}, {11, 3, 3, 1}, {.padding = 1, .groups = 11}, true},
    {"depthwise 3x3, no padding", {1, 5, 8, 8}, {8, 3, 3, 1}, {.groups = 8}},
    {"depthwise 3x3, much padding", {1, 4, 5, 8}, {8, 3, 3, 1}, {.padding = {3, 4}, .groups = 8}},
    {"depthwise 3x3 on one pixel", {2, 1, 1, 9}, {9, 3, 3, 1}, {.padding = 1, .groups = 9}},
    {"depthwise 3x3 stride 2",
     {2, 7, 19, 9},
     {9, 3, 3, 1},
     {.stride = 2, .padding = 1, .groups = 9}},
    {"depthwise 3x3 stride 2, even",
     {1, 8, 20, 8},
     {8, 3, 3, 1},
     {.stride = 2, .padding = 1, .groups = 8},
     true},
    {"depthwise 3x3 stride 2, no padding", {1, 6, 12, 8}, {8, 3, 3, 1}, {.stride = 2, .groups = 8}},
    {"depthwise 3x3 stride 2, much padding",
     {1, 5, 12, 8},
     {8, 3, 3, 1},
     {.stride = 2, .padding = 3, .groups = 8}},
    {"depthwise 3x3 stride [1,2]",
     {1, 6, 12, 8},
     {8, 3, 3, 1},
     {.stride = {1, 2}, .padding = 1, .groups = 8}},
    {"depthwise 5x5", {1, 6, 7, 9}, {9, 5, 5, 1}, {.padding = 2, .groups = 9}, true},
    {"depthwise 5x5 stride 2",
     {1, 9, 8, 8},
     {8, 5, 5, 1},
     {.stride = 2, .padding = 2, .groups = 8}},
    {"depthwise dilation 2, stride 3",
     {1, 10, 9, 4},
     {4, 3, 3, 1},
     {.stride = 3, .padding = 2, .dilation = 2, .groups = 4}},
    {"depthwise dilation 2, stride 2",
     {1, 10, 9, 4},
     {4, 3, 2, 1},
     {.stride = 2, .padding = 2, .dilation = 2, .groups = 4}},
    {"depthwise 5x5, tiles", {2, 8, 13, 25}, {25, 5, 5, 1}, {.padding = 2, .groups = 25}, true},
    {"depthwise 5x5, no padding", {1, 7, 13, 12}, {12, 5, 5, 1}, {.groups = 12}},
    {"depthwise 5x5, much padding", {1, 5, 6, 8}, {8, 5, 5, 1}, {.padding = {5, 6}, .groups = 8}},
    {"depthwise 5x5 on one pixel", {2, 1, 1, 9}, {9, 5, 5, 1}, {.padding = 2, .groups = 9}},
    {"depthwise 5x5 stride 2, tiles",
     {1, 13, 25, 25},
     {25, 5, 5, 1},
     {.stride = 2, .padding = 2, .groups = 25},
     true},
    {"depthwise 5x5 stride 2, no padding",
     {1, 9, 18, 12},
     {12, 5, 5, 1},
     {.stride = 2, .groups = 12}},
    {"depthwise 5x5 stride 2, much padding",
     {1, 5, 6, 8},
     {8, 5, 5, 1},
     {.stride = 2, .padding = 5, .groups = 8}},
    {"depthwise 3x3, pieces", {1, 16, 18, 33}, {33, 3, 3, 1}, {.padding = 1, .groups = 33}},
    {"depthwise 5x5 stride 2, pieces",
     {2, 19, 16, 33},
     {33, 5, 5, 1},
     {.stride = 2, .padding = 1, .groups = 33}},
    {"depthwise dilation 2, pieces",
     {1, 16, 17, 5},
     {5, 3, 3, 1},
     {.padding = {2, 1}, .dilation = 2, .groups = 5}},
    {"depthwise 2x3", {2, 6, 5, 9}, {9, 2, 3, 1}, {.padding = 1, .groups = 9}, true},
    {"no images", {0, 5, 5, 3}, {4, 3, 3, 3}, {}, true},
    {"no images, many channels", {0, 9, 9, 32}, {32, 3, 3, 32}, {.padding = 1}},
    {"no channels", {1, 4, 4, 0}, {3, 3, 3, 0}, {}, true},
    {"no outputs", {1, 4, 4, 3}, {0, 3, 3, 3}},
    {"nothing but padding", {1, 0, 3, 2}, {3, 1, 1, 2}, {.padding = 1}, true},
    {"depthwise, nothing but padding", {1, 0, 3, 2}, {2, 1, 1, 1}, {.padding = 1, .groups = 2}},
};

void call(const Shape& x, const Shape& weight, const Conv2dOptions& options = {}) {
  conv2d(zeros(x), zeros(weight), Tensor(), options);
}

const std::vector<ErrorCase> kErrors = {
    {[] {
       call({8, 56, 56, 64}, {128, 3, 3, 32});
     },
     "conv2d: expected input channels 32 to match weight [128,3,3,32], got input [8,56,56,64]"},
    {[] {
       call({8, 56, 56, 64}, {128, 3, 3, 32}, {.groups = 4});
     },
     "expected input channels 128 to match weight [128,3,3,32] in 4 groups, got input "
     "[8,56,56,64]"},
    {[] {
       call({56, 56, 64}, {128, 3, 3, 64});
     },
     "expected input [N,H,W,C], got [56,56,64]"},
    {[] {
       call({1, 5, 5, 4}, {3, 3, 4});
     },
     "expected weight [K,R,S,C/groups], got [3,3,4]"},
    {[] {
       call({1, 5, 5, 4}, {4, 0, 1, 4});
     },
     "expected a window of at least 1x1"},
    {[] {
       call({1, 5, 5, 4}, {4, 3, 3, 4}, {.stride = 0});
     },
     "expected strides of at least 1, got [0,0]"},
    {[] {
       call({1, 5, 5, 4}, {4, 3, 3, 4}, {.padding = {1, -1}});
     },
     "expected paddings of at least 0, got [1,-1]"},
    {[] {
       call({1, 5, 5, 4}, {4, 3, 3, 4}, {.dilation = {0, 1}});
     },
     "expected dilations of at least 1, got [0,1]"},
    {[] {
       call({1, 5, 5, 4}, {4, 3, 3, 4}, {.groups = 0});
     },
     "expected at least 1 group, got 0"},
    {[] {
       call({1, 5, 5, 6}, {4, 3, 3, 2}, {.groups = 3});
     },
     "expected groups to divide output channels 4, got 3 groups"},
    {[] {
       call({1, 5, 2, 4}, {4, 3, 3, 4});
     },
     "expected a window within the padded input, got width 2 with padding 0 and a window of 3 "
     "with dilation 1"},
    {[] {
       call({1, 5, 5, 4}, {4, 3, 3, 4}, {.padding = 1, .dilation = {4, 1}});
     },
     "expected a window within the padded input, got height 5 with padding 1 and a window of 3 "
     "with dilation 4"},
    {[] {
       call({1, 5, 5, 4}, {4, 3, 3, 4}, {.padding = int64_t{1} << 62});
     },
     "expected a window within the padded input"},
    {[] {
       conv2d(zeros({1, 5, 5, 4}), zeros({6, 3, 3, 4}), zeros({4}));
     },
     "expected bias of shape [6] to match weight [6,3,3,4], got [4]"},
    {[] {
       conv2d(zeros({1, 5, 5, 4}), zeros({6, 3, 3, 4}, {.dtype = Dtype::float64}), Tensor());
     },
     "expected one dtype, got float32 and float64"},
    {[] {
       Tensor x = zeros({1, 5, 5, 4}, {.dtype = Dtype::int32});
       conv2d(x, x, Tensor());
     },
     "expected a floating dtype, got int32"},
};

}  // namespace

TEST_CASE("conv2d: spec") {
  OpSpec spec{.op = "conv2d", .errors = kErrors};
  for (const Case& c : kCases) spec.samples.push_back(sample(c));
  check_op(spec);
}

TEST_CASE("conv2d: saves x only for the gradient of the weight") {
  for (bool weight_learns : {false, true}) {
    Tensor x = zeros({1, 4, 4, 3}), first = zeros({3, 1, 1, 3}), second = zeros({2, 3, 3, 3});
    x.set_requires_grad();
    second.set_requires_grad(weight_learns);
    Tensor between = conv2d(x, first, Tensor());
    std::weak_ptr<Storage> held = between.storage();
    Tensor y = conv2d(std::move(between), second, Tensor());
    CHECK(held.expired() == !weight_learns);
    backward(y, {.grad = ones(y.shape())});
    CHECK(second.grad().defined() == weight_learns);
  }
}

}  // namespace brim
