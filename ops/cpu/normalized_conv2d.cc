#include "brim/ops/cpu/normalized_conv2d.h"

#include "brim/ops/cpu/conv2d_slices.h"
#include "brim/ops/cpu/depthwise.h"
#include "brim/ops/cpu/few_pixels.h"
#include "brim/ops/cpu/input_norm.h"
#include "brim/ops/cpu/pointwise.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/normalized_conv2d.h"

namespace brim::cpu {
namespace {

using Attributes = kernel::NormalizedConv2dAttributes;

/// The norm of a call's input, and the rest of its scratch.
struct Normalizer {
  ScratchCursor cursor;
  InputNorm norm;

  Normalizer(const KernelCall& call, const Attributes& attributes)
      : cursor(call.scratch), norm(call.in[0], attributes.norm.activation, cursor) {}
  void set(const KernelCall& call, const Attributes& attributes) {
    norm.set(call.in[1], call.in[2], call.in[3], call.in[4], attributes.norm.epsilon);
  }
  void* rest() { return cursor.take<char>(0); }
};

ConvShape forward_shape(const KernelCall& call, const Attributes& attributes) {
  return {call.in[0].shape, call.in[5].shape, call.out[0].shape, attributes.window};
}

int64_t forward_scratch(const KernelCall& call, const Attributes& attributes) {
  const Normalizer by(call, attributes);
  const ConvShape shape = forward_shape(call, attributes);
  const auto scratch =
      shape.is_depthwise() ? normalized_depthwise_scratch : pointwise::normalized_forward_scratch;
  return by.cursor.used() + scratch(shape, by.norm);
}

void forward(const KernelCall& call, const Attributes& attributes) {
  Normalizer by(call, attributes);
  by.set(call, attributes);
  const ConvShape shape = forward_shape(call, attributes);
  const auto convolve = shape.is_depthwise() ? normalized_depthwise : pointwise::normalized_forward;
  convolve(shape, by.norm, call.in[0].as<float>(), call.in[5].as<float>(),
           call.in[6].present ? call.in[6].as<float>() : nullptr, call.out[0].as<float>(),
           {call.out[1].as<double>(), call.out[2].as<double>()}, by.rest());
}

/// Slices of the batch, as `kernel::conv2d_backward_weight` has them.
struct WeightGradient {
  Normalizer by;
  ImageSlices slices;
  int64_t weights;
  float* part;

  WeightGradient(const KernelCall& call, const Attributes& attributes)
      : by(call, attributes),
        slices(
            of_shape({call.in[0].shape, call.out[0].shape, call.in[5].shape, attributes.window})),
        weights(call.out[0].numel()),
        part(slices.several() ? by.cursor.take<float>(weights) : nullptr) {}

 private:
  static ImageSlices of_shape(const ConvShape& shape) { return {shape, images_of_slice(shape)}; }
};

int64_t backward_weight_scratch(const KernelCall& call, const Attributes& attributes) {
  const WeightGradient gradient(call, attributes);
  return gradient.by.cursor.used() + gradient.slices.scratch([&](const ConvShape& shape) {
    return normalized_depthwise_backward_weight_scratch(shape, gradient.by.norm);
  });
}

void backward_weight(const KernelCall& call, const Attributes& attributes) {
  WeightGradient gradient(call, attributes);
  gradient.by.set(call, attributes);
  const float *x = call.in[0].as<float>(), *dy = call.in[5].as<float>();
  float* sum = call.out[0].as<float>();
  void* rest = gradient.by.rest();
  gradient.slices.each([&](const ConvShape& shape, bool first) {
    normalized_depthwise_backward_weight(shape, gradient.by.norm, x, dy,
                                         first ? sum : gradient.part, rest);
    if (!first) add_to(sum, gradient.part, gradient.weights);
    x += elements_of_x(shape);
    dy += elements_of_dy(shape);
  });
}

}  // namespace

bool normalizes_on_the_way(const ConvShape& shape) {
  constexpr int64_t kWidestVector = 16;  // floats: the answer is the same on all processors
  if (shape.is_depthwise())
    return shape.c % kWidestVector == 0 && depthwise_gathers_statistics(shape);
  return !has_few_pixels(shape, kFewPixelsOfOneCall) && pointwise::suits(shape, ConvPass::forward);
}

void register_normalized_conv2d() {
  constexpr DeviceType kCpu = DeviceType::cpu;
  register_kernel(kernel::normalized_conv2d, kCpu, Dtype::float32, forward, forward_scratch);
  register_kernel(kernel::normalized_conv2d_backward_weight, kCpu, Dtype::float32, backward_weight,
                  backward_weight_scratch);
}

}  // namespace brim::cpu
