#include "brim/ops/cpu/normalized_conv2d.h"

#include "brim/ops/cpu/depthwise.h"
#include "brim/ops/cpu/input_norm.h"
#include "brim/ops/cpu/narrow_weight.h"
#include "brim/ops/cpu/normalized_backward.h"
#include "brim/ops/cpu/pointwise.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/cpu/winograd.h"
#include "brim/ops/normalized_conv2d.h"

namespace brim::cpu {
namespace {

using Attributes = kernel::NormalizedConv2dAttributes;

enum class Way { depthwise, pointwise, winograd };

/// If there is one at all.
Way way_of(const ConvShape& shape) {
  if (shape.is_depthwise()) return Way::depthwise;
  return shape.r == 1 && shape.s == 1 ? Way::pointwise : Way::winograd;
}

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
  const auto bytes = [&] {
    switch (way_of(shape)) {
      case Way::depthwise:
        return normalized_depthwise_scratch(shape, by.norm);
      case Way::pointwise:
        return pointwise::normalized_forward_scratch(shape, by.norm);
      case Way::winograd:
        return winograd::forward_scratch(shape, call.out[1].present);
    }
    __builtin_unreachable();
  };
  return by.cursor.used() + bytes();
}

void forward(const KernelCall& call, const Attributes& attributes) {
  Normalizer by(call, attributes);
  by.set(call, attributes);
  const ConvShape shape = forward_shape(call, attributes);
  const float *x = call.in[0].as<float>(), *weight = call.in[5].as<float>();
  const float* bias = call.in[6].present ? call.in[6].as<float>() : nullptr;
  float* y = call.out[0].as<float>();
  const BatchStatistics statistics{call.out[1].as<double>(), call.out[2].as<double>()};
  switch (way_of(shape)) {
    case Way::depthwise:
      return normalized_depthwise(shape, by.norm, x, weight, bias, y, statistics, by.rest());
    case Way::pointwise:
      return pointwise::normalized_forward(shape, by.norm, x, weight, bias, y, statistics,
                                           by.rest());
    case Way::winograd:
      return winograd::forward(shape, x, weight, bias, y, statistics, by.rest(), &by.norm);
  }
}

ConvShape backward_shape(const KernelCall& call, const Attributes& attributes) {
  return {call.in[0].shape, call.in[6].shape, call.in[5].shape, attributes.window};
}

int64_t backward_scratch(const KernelCall& call, const Attributes& attributes) {
  switch (way_of(backward_shape(call, attributes))) {
    case Way::depthwise:
      return normalized_depthwise_backward_scratch(call, attributes);
    case Way::pointwise:
      return normalized_pointwise_backward_scratch(call, attributes);
    case Way::winograd:
      return normalized_winograd_backward_scratch(call, attributes);
  }
  __builtin_unreachable();
}

void backward(const KernelCall& call, const Attributes& attributes) {
  switch (way_of(backward_shape(call, attributes))) {
    case Way::depthwise:
      return normalized_depthwise_backward(call, attributes);
    case Way::pointwise:
      return normalized_pointwise_backward(call, attributes);
    case Way::winograd:
      return normalized_winograd_backward(call, attributes);
  }
}

/// Of channels that fill the vectors of any processor, as all have to choose alike.
bool suits_winograd(const ConvShape& shape, ConvPass pass) {
  return shape.c % kWidestFloats == 0 && shape.k % kWidestFloats == 0 &&
         winograd::suits(shape, pass);
}

}  // namespace

bool normalizes_on_the_way(const ConvShape& shape) {
  switch (way_of(shape)) {
    case Way::depthwise:
      return shape.c % kWidestFloats == 0 && shape.h * shape.w > 0 &&
             depthwise_gathers_statistics(shape);
    case Way::pointwise:
      return pointwise::suits(shape, ConvPass::forward);
    case Way::winograd:
      return suits_winograd(shape, ConvPass::forward);
  }
  __builtin_unreachable();
}

bool has_normalized_backward(const ConvShape& shape) {
  if (!normalizes_on_the_way(shape)) return false;
  switch (way_of(shape)) {
    case Way::depthwise:
      return true;
    case Way::pointwise:
      return pointwise::goes_into_norm(shape);
    case Way::winograd:
      return suits_winograd(shape, ConvPass::backward_data);
  }
  __builtin_unreachable();
}

bool has_normalized_weight(const ConvShape& shape) {
  switch (way_of(shape)) {
    case Way::depthwise:
      return true;
    case Way::pointwise:
      return has_narrow_weight_everywhere(shape);
    case Way::winograd:
      return winograd::transforms_x_once(shape) && suits_winograd(shape, ConvPass::backward_weight);
  }
  __builtin_unreachable();
}

void register_normalized_conv2d() {
  register_kernel(kernel::normalized_conv2d, DeviceType::cpu, Dtype::float32, forward,
                  forward_scratch);
  register_kernel(kernel::normalized_conv2d_backward, DeviceType::cpu, Dtype::float32, backward,
                  backward_scratch);
}

}  // namespace brim::cpu
