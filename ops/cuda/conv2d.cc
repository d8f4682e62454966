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

namespace brim::cuda {
namespace {

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
      pass == ConvPass::forward && is_low_precision(result.dtype) && call.in[2].present;
  int64_t alignment =
      std::min({alignment_of(first.data), alignment_of(second.data), alignment_of(result.data),
                bias ? alignment_of(call.in[2].data) : memory::kAlignment});
  return {shape, pass, result.dtype, alignment, bias};
}

bool is_empty(const ConvShape& s) { return s.n * s.h * s.w * s.p * s.q * s.k * s.window() == 0; }

template <class T, ConvPass pass>
int64_t scratch(const KernelCall& call, const Conv2dOptions& options) {
  ConvolutionCall described = describe<pass>(call, options);
  const ConvShape& shape = described.shape;
  if (is_empty(shape)) return 0;
  if constexpr (!is_low_precision(dtype_of<T>))
    if (shape.is_depthwise())
      return pass == ConvPass::backward_weight ? depthwise_backward_weight_scratch<T>(shape) : 0;
  if (is_bound(call.device)) return workspace_scratch(kWorkspaceCap);
  const Device device = device_meant(call.device);
  DeviceScope scope(device);
  return workspace_scratch(workspace_bytes(find_convolution(described, device)));
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
                    .bias = described.bias ? call.in[2].data : nullptr,
                    .result = call.out[0].data,
                    .workspace = take_workspace(cursor, workspace_bytes(convolution))});
}

/// Halves that the library cannot convolve are left to float32; with a bias also those that are not
/// aligned, as its fused kernels read packs.
template <ConvPass pass>
bool suits(const KernelCall& call, const Conv2dOptions& options) {
  const ConvolutionCall described = describe<pass>(call, options);
  if (is_empty(described.shape)) return true;
  if (described.shape.is_depthwise() || (described.bias && described.alignment < 16)) return false;
  if (is_bound(call.device)) return true;
  const Device device = device_meant(call.device);
  DeviceScope scope(device);
  return has_convolution(described, device);
}

template <class T>
void forward(const KernelCall& call, const Conv2dOptions& options) {
  const View &bias = call.in[2], &y = call.out[0];
  ConvolutionCall described = describe<ConvPass::forward>(call, options);
  if (is_empty(described.shape)) {
    clear(call, y);
  } else if (described.shape.is_depthwise()) {
    if constexpr (!is_low_precision(dtype_of<T>))
      return depthwise<T>(call, described.shape, call.in[0], call.in[1], bias, y);
  } else {
    run_library<ConvPass::forward>(call, described);
    if (described.bias) return;
  }
  if (bias.present) add_bias<T>(call, bias, y);
}

template <class T>
void backward_data(const KernelCall& call, const Conv2dOptions& options) {
  ConvolutionCall described = describe<ConvPass::backward_data>(call, options);
  if (is_empty(described.shape)) return clear(call, call.out[0]);
  if constexpr (!is_low_precision(dtype_of<T>))
    if (described.shape.is_depthwise())
      return depthwise_backward_data<T>(call, described.shape, call.in[0], call.in[1], call.out[0]);
  run_library<ConvPass::backward_data>(call, described);
}

template <class T>
void backward_weight(const KernelCall& call, const Conv2dOptions& options) {
  ConvolutionCall described = describe<ConvPass::backward_weight>(call, options);
  if (is_empty(described.shape)) return clear(call, call.out[0]);
  if constexpr (!is_low_precision(dtype_of<T>))
    if (described.shape.is_depthwise())
      return depthwise_backward_weight<T>(call, described.shape, call.in[0], call.in[1],
                                          call.out[0]);
  run_library<ConvPass::backward_weight>(call, described);
}

template <class T>
void transpose(const KernelCall& call, const Conv2dOptions& options) {
  backward_data<T>(call, options);
  if (call.in[2].present) add_bias<T>(call, call.in[2], call.out[0]);
}

template <class T>
void register_for() {
  constexpr DeviceType kCuda = DeviceType::cuda;
  constexpr bool kHalf = is_low_precision(dtype_of<T>);
  register_kernel(kernel::conv2d, kCuda, dtype_of<T>, forward<T>, scratch<T, ConvPass::forward>,
                  kHalf ? suits<ConvPass::forward> : nullptr);
  register_kernel(kernel::conv2d_backward_data, kCuda, dtype_of<T>, backward_data<T>,
                  scratch<T, ConvPass::backward_data>,
                  kHalf ? suits<ConvPass::backward_data> : nullptr);
  register_kernel(kernel::conv2d_backward_weight, kCuda, dtype_of<T>, backward_weight<T>,
                  scratch<T, ConvPass::backward_weight>,
                  kHalf ? suits<ConvPass::backward_weight> : nullptr);
}

}  // namespace

void register_conv2d() {
  register_for<float>();
  register_for<double>();
  register_for<Float16>();
  register_for<BFloat16>();
  register_kernel(kernel::conv_transpose2d, DeviceType::cuda, Dtype::float32, transpose<float>,
                  scratch<float, ConvPass::backward_data>);
  register_kernel(kernel::conv_transpose2d, DeviceType::cuda, Dtype::float64, transpose<double>,
                  scratch<double, ConvPass::backward_data>);
}

}  // namespace brim::cuda
