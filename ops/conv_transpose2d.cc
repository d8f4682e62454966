#include "brim/ops/conv_transpose2d.h"

#include <algorithm>

#include "brim/ops/conv_slices.h"
#include "brim/ops/linear.h"
#include "brim/ops/op.h"
#include "brim/ops/product.h"

namespace brim {
namespace {

constexpr const char* kName = "conv_transpose2d";

void require_options(const ConvTranspose2dOptions& o) {
  expect<ValueError>(std::min(o.stride.h, o.stride.w) >= 1, kName,
                     "expected strides of at least 1, got {}", o.stride);
  expect<ValueError>(std::min(o.padding.h, o.padding.w) >= 0, kName,
                     "expected paddings of at least 0, got {}", o.padding);
  expect<ValueError>(std::min(o.dilation.h, o.dilation.w) >= 1, kName,
                     "expected dilations of at least 1, got {}", o.dilation);
  expect<ValueError>(std::min(o.output_padding.h, o.output_padding.w) >= 0 &&
                         o.output_padding.h < o.stride.h && o.output_padding.w < o.stride.w,
                     kName, "expected output paddings of at least 0 and below strides {}, got {}",
                     o.stride, o.output_padding);
  expect<ValueError>(o.groups >= 1, kName, "expected at least 1 group, got {}", o.groups);
}

struct Axis {
  const char* name;
  int64_t size, taps, stride, padding, output_padding, dilation;
};

/// (size - 1) * stride - 2 * padding + dilation * (taps - 1) + output_padding + 1
int64_t result_size(const Axis& a) {
  int64_t steps = 0, reach = 0, cut = 0, result = 0;
  bool fits = a.size >= 1 && !__builtin_mul_overflow(a.size - 1, a.stride, &steps) &&
              !__builtin_mul_overflow(a.taps - 1, a.dilation, &reach) &&
              !__builtin_mul_overflow(a.padding, int64_t{2}, &cut) &&
              !__builtin_add_overflow(steps, reach, &result) &&
              !__builtin_add_overflow(result, a.output_padding + 1, &result) && result > cut;
  expect<ShapeError>(fits, kName,
                     "expected a result of at least one pixel, got {} {} with stride {}, padding "
                     "{}, output padding {} and a window of {} with dilation {}",
                     a.name, a.size, a.stride, a.padding, a.output_padding, a.taps, a.dilation);
  return result - cut;
}

class ConvTranspose2d final : public autograd::Op {
 public:
  explicit ConvTranspose2d(const ConvTranspose2dOptions& options)
      : options_(options),
        convolution_{options.stride, options.padding, options.dilation, options.groups} {}
  const char* name() const override { return kName; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    require_floating(name(), in[0]);
    require_same_kind(name(), in[0], in[1]);
    Shape shape = conv_transpose2d_shape(in[0].shape(), in[1].shape(), options_);
    if (in.size() > 2) require_bias(name(), in[1], in[2], shape[3]);
    Tensor x = contiguous(in[0]), weight = contiguous(in[1]);
    Tensor bias = in.size() > 2 ? contiguous(in[2]) : Tensor();
    Tensor y = empty(shape, {.dtype = x.dtype(), .device = x.device()});
    launch(kernel::conv_transpose2d, {x, weight, bias}, {y}, convolution_);
    return {y};
  }

  autograd::Saves saves(const autograd::Needs& needs) const override {
    return saves_of_product(needs);
  }

  bool reads_rows(int input, std::span<const autograd::TensorInfo> in,
                  std::span<const autograd::TensorInfo> out) const override {
    return input == 0 && has_slices({out[0].shape, in[1].shape, in[0].shape, convolution_}, in[0]);
  }

  // The transpose of the transpose: x and y have changed places.
  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dy = call.take_grad();
    Tensors grads(static_cast<size_t>(call.inputs()));
    auto grad_for = [&](int i) {
      return grads[static_cast<size_t>(i)] =
                 empty(call.input_info(i).shape, call.input_info(i).options());
    };
    if (grads.size() > 2 && call.needs(2)) launch(kernel::bias_gradient, {dy}, {grad_for(2)});
    if (call.needs(1))
      launch_backward_weight(
          ConvShape(dy.shape(), call.input_info(1).shape, call.input_info(0).shape, convolution_),
          convolution_, WeightGradientInput::dy, call.take_input_rows(0), dy, grad_for(1));
    if (call.needs(0))
      launch(kernel::conv2d, {dy, contiguous(call.input(1)), Tensor()}, {grad_for(0)},
             convolution_);
    return grads;
  }

  /// Of the convolution whose gradient it is: x has the shape of that one's result.
  double flops(std::span<const autograd::TensorInfo> inputs,
               std::span<const autograd::TensorInfo>) const override {
    return convolution_flops(inputs[0].shape, inputs[1].shape);
  }

 private:
  ConvTranspose2dOptions options_;
  Conv2dOptions convolution_;  // from y to x
};

}  // namespace

Shape conv_transpose2d_shape(const Shape& x, const Shape& weight, const ConvTranspose2dOptions& o) {
  require_options(o);
  expect<ShapeError>(x.size() == 4, kName, "expected input [N,H,W,in], got {}", x);
  expect<ShapeError>(weight.size() == 4, kName, "expected weight [in,R,S,out/groups], got {}",
                     weight);
  expect<ShapeError>(weight[1] >= 1 && weight[2] >= 1, kName,
                     "expected a window of at least 1x1, got weight {}", weight);
  expect<ShapeError>(weight[0] % o.groups == 0, kName,
                     "expected groups to divide input channels {}, got {} groups", weight[0],
                     o.groups);
  expect<ShapeError>(x[3] == weight[0], kName,
                     "expected input channels {} to match weight {}, got input {}", weight[0],
                     weight, x);
  int64_t channels = 0;
  expect<ShapeError>(!__builtin_mul_overflow(weight[3], o.groups, &channels), kName,
                     "expected fewer output channels than weight {} in {} groups has", weight,
                     o.groups);
  return {x[0],
          result_size({"height", x[1], weight[1], o.stride.h, o.padding.h, o.output_padding.h,
                       o.dilation.h}),
          result_size({"width", x[2], weight[2], o.stride.w, o.padding.w, o.output_padding.w,
                       o.dilation.w}),
          channels};
}

Tensor conv_transpose2d(Tensor x, Tensor weight, Tensor bias, const ConvTranspose2dOptions& options,
                        Where where) {
  Tensors inputs;
  inputs.push_back(std::move(x));
  inputs.push_back(std::move(weight));
  if (bias.defined()) inputs.push_back(std::move(bias));
  return autograd::apply_one(std::make_shared<ConvTranspose2d>(options), std::move(inputs), where);
}

}  // namespace brim
