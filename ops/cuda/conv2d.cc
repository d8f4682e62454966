// conv2d by cuDNN. Nothing to sum makes zeros.
#include "brim/ops/conv2d.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/error.h"
#include "brim/ops/cuda/add_bias.h"
#include "brim/ops/cuda/convolution.h"
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

template <ConvPass pass>
int64_t scratch(const KernelCall& call, const Conv2dOptions& options) {
  ConvolutionCall described = describe<pass>(call, options);
  if (is_empty(described.shape)) return 0;
  if (is_bound(call.device)) return workspace_scratch(kWorkspaceCap);
  const Device device = device_meant(call.device);
  DeviceScope scope(device);
  return workspace_scratch(workspace_bytes(find_convolution(described, device)));
}

template <ConvPass pass>
void convolve(const KernelCall& call, const Conv2dOptions& options) {
  const View& result = call.out[0];
  ConvolutionCall described = describe<pass>(call, options);
  if (is_empty(described.shape)) {
    auto bytes = static_cast<size_t>(result.numel() * size_of(result.dtype));
    check(cudaMemsetAsync(result.data, 0, bytes, static_cast<cudaStream_t>(call.stream)),
          "cudaMemsetAsync");
    return;
  }
  const Convolution& convolution = find_convolution(described, call.device);
  ScratchCursor cursor(call.scratch);
  run(convolution, {.first = call.in[0].data,
                    .second = call.in[1].data,
                    .bias = described.bias ? call.in[2].data : nullptr,
                    .result = result.data,
                    .workspace = take_workspace(cursor, workspace_bytes(convolution))});
}

/// Halves that the library cannot convolve are left to float32; with a bias also those that are
/// not aligned, as its fused kernels read packs.
template <ConvPass pass>
bool suits(const KernelCall& call, const Conv2dOptions& options) {
  ConvolutionCall described = describe<pass>(call, options);
  if (is_empty(described.shape)) return true;
  return (!described.bias || described.alignment >= 16) && has_convolution(described, call.device);
}

template <class T>
void forward(const KernelCall& call, const Conv2dOptions& options) {
  ConvolutionCall described = describe<ConvPass::forward>(call, options);
  convolve<ConvPass::forward>(call, options);
  if (call.in[2].present && (!described.bias || is_empty(described.shape)))
    add_bias<T>(call, call.in[2], call.out[0]);
}

template <class T>
void register_for() {
  constexpr bool kHalf = is_low_precision(dtype_of<T>);
  register_kernel(kernel::conv2d, DeviceType::cuda, dtype_of<T>, forward<T>,
                  scratch<ConvPass::forward>, kHalf ? suits<ConvPass::forward> : nullptr);
  register_kernel(kernel::conv2d_backward_data, DeviceType::cuda, dtype_of<T>,
                  convolve<ConvPass::backward_data>, scratch<ConvPass::backward_data>,
                  kHalf ? suits<ConvPass::backward_data> : nullptr);
  register_kernel(kernel::conv2d_backward_weight, DeviceType::cuda, dtype_of<T>,
                  convolve<ConvPass::backward_weight>, scratch<ConvPass::backward_weight>,
                  kHalf ? suits<ConvPass::backward_weight> : nullptr);
}

}  // namespace

void register_conv2d() {
  register_for<float>();
  register_for<double>();
  register_for<Float16>();
  register_for<BFloat16>();
}

}  // namespace brim::cuda
