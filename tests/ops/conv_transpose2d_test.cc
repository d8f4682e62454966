#include "brim/ops/conv_transpose2d.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

#include "brim/autograd/backward.h"
#include "brim/ops/conv2d.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

/// The formula in ops/conv_transpose2d.h: each input is spread over its window.
Tensor reference(const Tensors& in, const ConvTranspose2dOptions& o) {
  const Shape &x = in[0].shape(), &w = in[1].shape();
  Shape shape = conv_transpose2d_shape(x, w, o);
  int64_t in_group = x[3] / o.groups, out_group = w[3];
  std::vector<double> from = in[0].to_vector<double>(), weight = in[1].to_vector<double>();
  std::vector<double> y(static_cast<size_t>(numel(shape)), 0.0);
  for (int64_t n = 0; n < x[0]; ++n)
    for (int64_t i = 0; i < x[1]; ++i)
      for (int64_t j = 0; j < x[2]; ++j)
        for (int64_t c = 0; c < x[3]; ++c)
          for (int64_t r = 0; r < w[1]; ++r)
            for (int64_t s = 0; s < w[2]; ++s)
              for (int64_t k = 0; k < out_group; ++k) {
                int64_t p = i * o.stride.h - o.padding.h + r * o.dilation.h;
                int64_t q = j * o.stride.w - o.padding.w + s * o.dilation.w;
                if (p < 0 || p >= shape[1] || q < 0 || q >= shape[2]) continue;
                int64_t channel = c / in_group * out_group + k;
                y[static_cast<size_t>(((n * shape[1] + p) * shape[2] + q) * shape[3] + channel)] +=
                    from[static_cast<size_t>(((n * x[1] + i) * x[2] + j) * x[3] + c)] *
                    weight[static_cast<size_t>(((c * w[1] + r) * w[2] + s) * out_group + k)];
              }
  if (in.size() > 2) {
    std::vector<double> bias = in[2].to_vector<double>();
    for (size_t e = 0; e < y.size(); ++e) y[e] += bias[e % bias.size()];
  }
  return from_vector(y, shape);
}

Tensor random(const Shape& shape, uint64_t key) {
  return uniform(shape, -1, 1, RandomKey{key}, {.dtype = Dtype::float64});
}

struct Case {
  const char* name;
  Shape x, weight;
  ConvTranspose2dOptions options = {};
  bool bias = false;
};

OpSample sample(const Case& c) {
  Tensors inputs{random(c.x, 1), random(c.weight, 2)};
  ConvTranspose2dOptions options = c.options;
  Shape y = conv_transpose2d_shape(c.x, c.weight, options);
  if (c.bias) inputs.push_back(random({y[3]}, 3));
  return {
      .name = c.name,
      .inputs = inputs,
      .run =
          [=](const Tensors& in) {
            return Tensors{
                conv_transpose2d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), options)};
          },
      .reference = [=](const Tensors& in) { return Tensors{reference(in, options)}; },
      .reduction = c.weight[0] / options.groups * c.weight[1] * c.weight[2] + 1,
      .backward_reduction = std::max(y[0] * y[1] * y[2], c.weight[1] * c.weight[2] * c.weight[3]),
      .batched = {0}};
}

const std::vector<Case> kCases = {
    {"2x2 stride 2, U-Net's", {2, 4, 3, 8}, {8, 2, 2, 4}, {.stride = 2}, true},
    {"4x4 stride 2, padding 1, DCGAN's", {2, 4, 5, 8}, {8, 4, 4, 6}, {.stride = 2, .padding = 1}},
    {"3x3 stride 2, output padding",
     {1, 4, 5, 4},
     {4, 3, 3, 5},
     {.stride = 2, .padding = 1, .output_padding = 1},
     true},
    {"3x3", {2, 5, 6, 3}, {3, 3, 3, 4}, {.padding = 1}},
    {"1x1", {2, 4, 3, 9}, {9, 1, 1, 7}, {}, true},
    {"asymmetric",
     {1, 4, 5, 3},
     {3, 2, 3, 4},
     {.stride = {3, 2}, .padding = {0, 2}, .output_padding = {2, 0}, .dilation = {1, 2}},
     true},
    {"stride beyond the window", {1, 3, 4, 2}, {2, 2, 2, 3}, {.stride = 3, .output_padding = 2}},
    {"more padding than the window has", {1, 5, 5, 2}, {2, 3, 3, 2}, {.padding = 3}},
    {"2 groups", {2, 3, 4, 6}, {6, 3, 3, 5}, {.stride = 2, .groups = 2}, true},
    {"depthwise", {2, 4, 5, 9}, {9, 3, 3, 1}, {.stride = 2, .padding = 1, .groups = 9}, true},
    {"depthwise, output padding",
     {1, 4, 5, 8},
     {8, 3, 3, 1},
     {.stride = 2, .padding = 1, .output_padding = 1, .groups = 8}},
    {"no images", {0, 5, 5, 3}, {3, 3, 3, 4}, {}, true},
    {"no channels", {1, 3, 3, 0}, {0, 3, 3, 2}, {}, true},
    {"no outputs", {1, 3, 3, 2}, {2, 3, 3, 0}},
};

void call(const Shape& x, const Shape& weight, const ConvTranspose2dOptions& options = {}) {
  conv_transpose2d(zeros(x), zeros(weight), Tensor(), options);
}

const std::vector<ErrorCase> kErrors = {
    {[] {
       call({8, 6, 6, 64}, {32, 3, 3, 16});
     },
     "conv_transpose2d: expected input channels 32 to match weight [32,3,3,16], got input "
     "[8,6,6,64]"},
    {[] {
       call({6, 6, 64}, {64, 3, 3, 16});
     },
     "expected input [N,H,W,in], got [6,6,64]"},
    {[] {
       call({1, 5, 5, 4}, {4, 3, 4});
     },
     "expected weight [in,R,S,out/groups], got [4,3,4]"},
    {[] {
       call({1, 5, 5, 4}, {4, 0, 1, 4});
     },
     "expected a window of at least 1x1, got weight [4,0,1,4]"},
    {[] {
       call({1, 5, 5, 4}, {4, 3, 3, 4}, {.stride = 0});
     },
     "expected strides of at least 1, got [0,0]"},
    {[] {
       call({1, 5, 5, 4}, {4, 3, 3, 4}, {.padding = {1, -1}});
     },
     "expected paddings of at least 0, got [1,-1]"},
    {[] {
       call({1, 5, 5, 4}, {4, 3, 3, 4}, {.stride = 2, .output_padding = {1, 2}});
     },
     "expected output paddings of at least 0 and below strides [2,2], got [1,2]"},
    {[] {
       call({1, 5, 5, 4}, {4, 3, 3, 4}, {.dilation = {0, 1}});
     },
     "expected dilations of at least 1, got [0,1]"},
    {[] {
       call({1, 5, 5, 4}, {4, 3, 3, 4}, {.groups = 0});
     },
     "expected at least 1 group, got 0"},
    {[] {
       call({1, 5, 5, 4}, {4, 3, 3, 2}, {.groups = 3});
     },
     "expected groups to divide input channels 4, got 3 groups"},
    {[] {
       call({1, 5, 1, 4}, {4, 3, 3, 4}, {.padding = {0, 2}});
     },
     "expected a result of at least one pixel, got width 1 with stride 1, padding 2, output "
     "padding 0 and a window of 3 with dilation 1"},
    {[] {
       call({1, 0, 3, 4}, {4, 3, 3, 4});
     },
     "expected a result of at least one pixel, got height 0"},
    {[] {
       call({1, 5, 5, 4}, {4, 3, 3, 4}, {.stride = int64_t{1} << 62});
     },
     "expected a result of at least one pixel, got height 5"},
    {[] {
       conv_transpose2d(zeros({1, 5, 5, 4}), zeros({4, 3, 3, 3}), zeros({3}), {.groups = 2});
     },
     "expected bias of shape [6] to match weight [4,3,3,3], got [3]"},
    {[] {
       conv_transpose2d(zeros({1, 5, 5, 4}), zeros({4, 3, 3, 4}, {.dtype = Dtype::float64}),
                        Tensor());
     },
     "expected one dtype, got float32 and float64"},
    {[] {
       Tensor x = zeros({1, 5, 5, 4}, {.dtype = Dtype::int32});
       conv_transpose2d(x, x, Tensor());
     },
     "expected a floating dtype, got int32"},
};

}  // namespace

TEST_CASE("conv_transpose2d: spec") {
  OpSpec spec{.op = "conv_transpose2d", .errors = kErrors};
  for (const Case& c : kCases) spec.samples.push_back(sample(c));
  check_op(spec);
}

TEST_CASE("conv_transpose2d: gives back the size that the convolution had") {
  for (int64_t size : {8, 9}) {
    Shape weight{4, 3, 3, 2}, x{1, size, size, 2};
    Shape y = conv2d_shape(x, weight, {.stride = 2, .padding = 1});
    ConvTranspose2dOptions options{.stride = 2, .padding = 1, .output_padding = 1 - size % 2};
    CHECK(conv_transpose2d_shape(y, weight, options) == x);
  }
}

TEST_CASE("conv_transpose2d: saves x only for the gradient of the weight") {
  for (bool weight_learns : {false, true}) {
    Tensor x = zeros({1, 4, 4, 3}), first = zeros({3, 1, 1, 3}), second = zeros({3, 3, 3, 2});
    x.set_requires_grad();
    second.set_requires_grad(weight_learns);
    Tensor between = conv_transpose2d(x, first, Tensor());
    std::weak_ptr<Storage> held = between.storage();
    Tensor y = conv_transpose2d(std::move(between), second, Tensor());
    CHECK(held.expired() == !weight_learns);
    backward(y, {.grad = ones(y.shape())});
    CHECK(second.grad().defined() == weight_learns);
  }
}

}  // namespace brim
