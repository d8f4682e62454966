// conv2d, its gradients and conv_transpose2d: depthwise ones by brim's own kernels, the others by
// cuDNN. Nothing to sum makes zeros.
#include "brim/ops/conv2d.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/error.h"
#include "brim/ops/conv_transpose2d.h"
#include "brim/ops/cuda/add_bias.h"
#include "brim/ops/cuda/convolution.h"
#include "brim/ops/cuda/depthwise.h"
#include "brim/ops/cuda/register.h"
#include "brim/ops/cuda/workspace.h"
#include "brim/ops/cudnn_benchmark.h"
#include "brim/ops/tf32.h"

namespace brim::cuda {
namespace {

/// Of `conv2d` and `conv_transpose2d`; gradients have none.
const View& bias_of(const KernelCall& call) {
  static const View absent;
  return call.in.size() > 2 ? call.in[2] : absent;
}

// Views in the order of each kernel: see ops/conv2d.h.
template <ConvPass pass>
ConvolutionCall describe(const KernelCall& call, const Conv2dOptions& options) {
  const View &first = call.in[0], &second = call.in[1], &result = call.out[0];
  ConvShape shape = pass == ConvPass::forward
                        ? ConvShape(first.shape, second.shape, result.shape, options)
                    : pass == ConvPass::backward_data
                        ? ConvShape(result.shape, second.shape, first.shape, options)
                        : ConvShape(first.shape, result.shape, second.shape, options);
  const bool bias =
      pass == ConvPass::forward && is_low_precision(result.dtype) && bias_of(call).present;
  int64_t alignment =
      std::min({alignment_of(first.data), alignment_of(second.data), alignment_of(result.data),
                bias ? alignment_of(bias_of(call).data) : memory::kAlignment});
  return {.shape = shape,
          .pass = pass,
          .dtype = result.dtype,
          .alignment = alignment,
          .bias = bias,
          .allow_tf32 = result.dtype == Dtype::float32 && allow_tf32(),
          .benchmark = cudnn_benchmark()};
}

/// What scratch functions are asked for.
AskedFor purpose_of(const KernelCall& call) {
  return call.device.is_meta() ? AskedFor::plan : AskedFor::run;
}

bool is_empty(const ConvShape& s) { return s.n * s.h * s.w * s.p * s.q * s.k * s.window() == 0; }

template <class T, ConvPass pass>
int64_t scratch(const KernelCall& call, const Conv2dOptions& options) {
  ConvolutionCall described = describe<pass>(call, options);
  const ConvShape& shape = described.shape;
  if (is_empty(shape)) return 0;
  if (shape.is_depthwise())
    return pass == ConvPass::backward_weight ? depthwise_backward_weight_scratch<T>(shape)
                                             : depthwise_scratch<T>(shape);
  if (is_elsewhere(call.device)) return workspace_scratch(planned_workspace(described));
  const Device device = device_meant(call.device);
  DeviceScope scope(device);
  return workspace_scratch(workspace_bytes(find_convolution(described, device, purpose_of(call))));
}

void clear(const KernelCall& call, const View& result) {
  const auto bytes = static_cast<size_t>(result.numel() * size_of(result.dtype));
  if (bytes == 0) return;
  check(cudaMemsetAsync(result.data, 0, bytes, static_cast<cudaStream_t>(call.stream)),
        "cudaMemsetAsync");
}

/// With the bias that `described` has.
template <ConvPass pass>
void run_library(const KernelCall& call, const ConvolutionCall& described) {
  const Convolution& convolution = find_convolution(described, call.device);
  ScratchCursor cursor(call.scratch);
  run(convolution, {.first = call.in[0].data,
                    .second = call.in[1].data,
                    .bias = described.bias ? bias_of(call).data : nullptr,
                    .result = call.out[0].data,
                    .workspace = take_workspace(cursor, workspace_bytes(convolution))});
}

/// Halves that the library cannot convolve are left to float32. With a bias also those that are not
/// aligned, as its fused kernels read packs, and data gradients, for which it has none.
template <ConvPass pass>
bool suits(const KernelCall& call, const Conv2dOptions& options) {
  const ConvolutionCall described = describe<pass>(call, options);
  if (is_empty(described.shape) || described.shape.is_depthwise()) return true;
  if (bias_of(call).present && (!described.bias || described.alignment < 16)) return false;
  if (is_elsewhere(call.device)) return has_planned_engine(described);
  const Device device = device_meant(call.device);
  DeviceScope scope(device);
  return has_convolution(described, device, purpose_of(call));
}

/// The convolution, or its data gradient, which with a bias is `conv_transpose2d`.
template <class T, ConvPass pass>
void convolve(const KernelCall& call, const Conv2dOptions& options) {
  constexpr auto kDepthwise = pass == ConvPass::forward ? depthwise<T> : depthwise_backward_data<T>;
  const View &bias = bias_of(call), &result = call.out[0];
  const ConvolutionCall described = describe<pass>(call, options);
  if (is_empty(described.shape)) {
    clear(call, result);
  } else if (described.shape.is_depthwise()) {
    return kDepthwise(call, described.shape, call.in[0], call.in[1], bias, result);
  } else {
    run_library<pass>(call, described);
    if (described.bias) return;
  }
  if (bias.present) add_bias<T>(call, bias, result);
}

template <class T>
void backward_weight(const KernelCall& call, const Conv2dOptions& options) {
  ConvolutionCall described = describe<ConvPass::backward_weight>(call, options);
  if (is_empty(described.shape)) return clear(call, call.out[0]);
  if (described.shape.is_depthwise())
    return depthwise_backward_weight<T>(call, described.shape, call.in[0], call.in[1], call.out[0]);
  run_library<ConvPass::backward_weight>(call, described);
}

template <class T, ConvPass pass>
void add(const Kernel<Conv2dOptions>& kernel, KernelFn<Conv2dOptions> run) {
  register_kernel(kernel, DeviceType::cuda, dtype_of<T>, run, scratch<T, pass>,
                  is_low_precision(dtype_of<T>) ? suits<pass> : nullptr);
}

template <class T>
void register_for() {
  constexpr auto kForward = ConvPass::forward, kData = ConvPass::backward_data;
  add<T, kForward>(kernel::conv2d, convolve<T, kForward>);
  add<T, kData>(kernel::conv2d_backward_data, convolve<T, kData>);
  add<T, kData>(kernel::conv_transpose2d, convolve<T, kData>);
  add<T, ConvPass::backward_weight>(kernel::conv2d_backward_weight, backward_weight<T>);
}

}  // namespace

void register_conv2d() {
  register_for<float>();
  register_for<double>();
  register_for<Float16>();
  register_for<BFloat16>();
}

}  // namespace brim::cuda
