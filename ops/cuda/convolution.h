// All that brim asks of cuDNN: convolutions on NHWC activations and KRSC weights, through its graph
// API. The engine is chosen by the sizes, the alignment and a fixed workspace cap alone, once for
// each; only engines that are deterministic and compute in the precision of the tensors. For
// tensors call `conv2d`.
#pragma once

#include <cstdint>
#include <string>

#include "brim/base/device.h"
#include "brim/core/dtype.h"
#include "brim/ops/conv_shape.h"

namespace brim::cuda {

/// One convolution; no size is 0. Of float32, float64, or halves, whose products are added in
/// float32.
struct ConvolutionCall {
  ConvShape shape;
  ConvPass pass = ConvPass::forward;
  Dtype dtype = Dtype::float32;
  int64_t alignment = 64;  ///< of every tensor, in bytes
  bool bias = false;       ///< forward, halves: added to the channels of y before it is rounded
};

class Convolution;

/// The convolution on a GPU, which is the current one (`DeviceScope`). Thread safe. Throws
/// `DeviceError` where cuDNN is missing, has no such engine, or fails.
const Convolution& find_convolution(const ConvolutionCall& call, Device device);

/// Whether `find_convolution` has one.
bool has_convolution(const ConvolutionCall& call, Device device);

/// Bytes, at most `kWorkspaceCap`.
int64_t workspace_bytes(const Convolution& convolution);

/// forward: x, weight -> y. backward_data: dy, weight -> dx. backward_weight: x, dy -> dweight.
struct ConvolutionBuffers {
  const void *first = nullptr, *second = nullptr, *bias = nullptr;
  void *result = nullptr, *workspace = nullptr;
};

/// Enqueues it on the GPU's default stream.
void run(const Convolution& convolution, const ConvolutionBuffers& buffers);

/// The engine that would be chosen on a GPU that need not be there, described as cuDNN does
/// (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION): its number and its workspace.
struct EngineChoice {
  int64_t engine = 0;
  int64_t workspace = 0;
};
EngineChoice choose_engine(const ConvolutionCall& call, const std::string& properties);

}  // namespace brim::cuda
