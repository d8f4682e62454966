#include "brim/ops/cpu/normalized_conv2d.h"

#include "brim/ops/cpu/depthwise.h"
#include "brim/ops/cpu/input_norm.h"
#include "brim/ops/cpu/narrow_weight.h"
#include "brim/ops/cpu/normalized_backward.h"
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

ConvShape backward_shape(const KernelCall& call, const Attributes& attributes) {
  return {call.in[0].shape, call.in[6].shape, call.in[5].shape, attributes.window};
}

int64_t backward_scratch(const KernelCall& call, const Attributes& attributes) {
  const auto scratch = backward_shape(call, attributes).is_depthwise()
                           ? normalized_depthwise_backward_scratch
                           : normalized_pointwise_backward_scratch;
  return scratch(call, attributes);
}

void backward(const KernelCall& call, const Attributes& attributes) {
  const auto run = backward_shape(call, attributes).is_depthwise() ? normalized_depthwise_backward
                                                                   : normalized_pointwise_backward;
  run(call, attributes);
}

}  // namespace

bool normalizes_on_the_way(const ConvShape& shape) {
  if (shape.is_depthwise())
    return shape.c % kWidestFloats == 0 && shape.h * shape.w > 0 &&
           depthwise_gathers_statistics(shape);
  return pointwise::suits(shape, ConvPass::forward);
}

bool has_normalized_backward(const ConvShape& shape) {
  return normalizes_on_the_way(shape) && (shape.is_depthwise() || pointwise::goes_into_norm(shape));
}

bool has_normalized_weight(const ConvShape& shape) {
  return shape.is_depthwise() || has_narrow_weight_everywhere(shape);
}

void register_normalized_conv2d() {
  register_kernel(kernel::normalized_conv2d, DeviceType::cpu, Dtype::float32, forward,
                  forward_scratch);
  register_kernel(kernel::normalized_conv2d_backward, DeviceType::cpu, Dtype::float32, backward,
                  backward_scratch);
}

}  // namespace brim::cpu
