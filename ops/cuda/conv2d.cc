// conv2d, its gradients and conv_transpose2d, in float32 and float64: depthwise ones by brim's own
// kernels, the others by cuDNN. Nothing to sum makes zeros.
#include "brim/ops/conv2d.h"

#include <cuda_runtime_api.h>

#include <algorithm>

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
  int64_t alignment =
      std::min({alignment_of(first.data), alignment_of(second.data), alignment_of(result.data)});
  return {shape, pass, result.dtype, alignment};
}

bool is_empty(const ConvShape& s) { return s.n * s.h * s.w * s.p * s.q * s.k * s.window() == 0; }

template <class T, ConvPass pass>
int64_t scratch(const KernelCall& call, const Conv2dOptions& options) {
  ConvolutionCall described = describe<pass>(call, options);
  const ConvShape& shape = described.shape;
  if (is_empty(shape)) return 0;
  if (shape.is_depthwise())
    return pass == ConvPass::backward_weight ? depthwise_backward_weight_scratch<T>(shape) : 0;
  return workspace_scratch(workspace_bytes(find_convolution(described, call.device)));
}

void clear(const KernelCall& call, const View& result) {
  const auto bytes = static_cast<size_t>(result.numel() * size_of(result.dtype));
  if (bytes == 0) return;
  check(cudaMemsetAsync(result.data, 0, bytes, static_cast<cudaStream_t>(call.stream)),
        "cudaMemsetAsync");
}

/// Without a bias.
template <ConvPass pass>
void run_library(const KernelCall& call, const ConvolutionCall& described) {
  const Convolution& convolution = find_convolution(described, call.device);
  ScratchCursor cursor(call.scratch);
  run(convolution, call.in[0].data, call.in[1].data, call.out[0].data,
      take_workspace(cursor, workspace_bytes(convolution)));
}

template <class T>
void forward(const KernelCall& call, const Conv2dOptions& options) {
  const View &bias = call.in[2], &y = call.out[0];
  ConvolutionCall described = describe<ConvPass::forward>(call, options);
  if (is_empty(described.shape)) {
    clear(call, y);
  } else if (described.shape.is_depthwise()) {
    return depthwise<T>(call, described.shape, call.in[0], call.in[1], bias, y);
  } else {
    run_library<ConvPass::forward>(call, described);
  }
  if (bias.present) add_bias<T>(call, bias, y);
}

template <class T>
void backward_data(const KernelCall& call, const Conv2dOptions& options) {
  ConvolutionCall described = describe<ConvPass::backward_data>(call, options);
  if (is_empty(described.shape)) return clear(call, call.out[0]);
  if (described.shape.is_depthwise())
    return depthwise_backward_data<T>(call, described.shape, call.in[0], call.in[1], call.out[0]);
  run_library<ConvPass::backward_data>(call, described);
}

template <class T>
void backward_weight(const KernelCall& call, const Conv2dOptions& options) {
  ConvolutionCall described = describe<ConvPass::backward_weight>(call, options);
  if (is_empty(described.shape)) return clear(call, call.out[0]);
  if (described.shape.is_depthwise())
    return depthwise_backward_weight<T>(call, described.shape, call.in[0], call.in[1], call.out[0]);
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
  register_kernel(kernel::conv2d, kCuda, dtype_of<T>, forward<T>, scratch<T, ConvPass::forward>);
  register_kernel(kernel::conv2d_backward_data, kCuda, dtype_of<T>, backward_data<T>,
                  scratch<T, ConvPass::backward_data>);
  register_kernel(kernel::conv2d_backward_weight, kCuda, dtype_of<T>, backward_weight<T>,
                  scratch<T, ConvPass::backward_weight>);
  register_kernel(kernel::conv_transpose2d, kCuda, dtype_of<T>, transpose<T>,
                  scratch<T, ConvPass::backward_data>);
}

}  // namespace

void register_conv2d() {
  register_for<float>();
  register_for<double>();
}

}  // namespace brim::cuda
