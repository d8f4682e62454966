// All that brim asks of cuDNN: convolutions on NHWC activations and KRSC weights, through its graph
// API. The engine is chosen once for each call that differs, within a fixed workspace cap: as the
// table has it (ops/engine_table.h), else by timing where that is asked for, else by cuDNN's
// heuristics; only engines that are deterministic and compute in the precision of the tensors, or
// in TF32 where that is allowed. For tensors call `conv2d`.
#pragma once

#include <cstdint>
#include <string>

#include "brim/base/device.h"
#include "brim/core/dtype.h"
#include "brim/ops/conv_shape.h"
#include "brim/ops/cudnn_benchmark.h"
#include "brim/ops/engine_table.h"

namespace brim::cuda {

/// One convolution; no size is 0. Of float32, float64, or halves, whose products are added in
/// float32.
struct ConvolutionCall {
  ConvShape shape;
  ConvPass pass = ConvPass::forward;
  Dtype dtype = Dtype::float32;
  int64_t alignment = 64;   ///< of every tensor, in bytes
  bool bias = false;        ///< forward, halves: added to the channels of y before it is rounded
  bool allow_tf32 = false;  ///< of float32 alone (ops/tf32.h)
  bool benchmark = false;   ///< the fastest engine, where it can be timed (ops/cudnn_benchmark.h)
};

/// What tables and files know it by: "forward float32 x 8x56x56x64 weight 128x3x3x64 ...".
std::string name_of(const ConvolutionCall& call);

/// Who asks: only for a plan, before there is one, may engines be timed.
enum class AskedFor { run, plan };

class Convolution;

/// The convolution on a GPU, which is the current one (`DeviceScope`). Thread safe. Throws
/// `MissingLibraryError` without cuDNN, `UnsupportedError` where it has no such engine, and
/// `DeviceError` where it fails.
const Convolution& find_convolution(const ConvolutionCall& call, Device device,
                                    AskedFor purpose = AskedFor::run);

/// Whether `find_convolution` has one; throws where it fails.
bool has_convolution(const ConvolutionCall& call, Device device, AskedFor purpose = AskedFor::run);

/// Bytes, at most `kWorkspaceCap`.
int64_t workspace_bytes(const Convolution& convolution);

/// `workspace_bytes` on the GPU that this thread plans for and that is not here (base/stand_in.h),
/// by its description; where there is none, no cuDNN to ask, or the fastest engine is wanted, which
/// only the GPU knows, `kWorkspaceCap`, a bound. Thread
/// safe. Throws as `find_convolution`.
int64_t planned_workspace(const ConvolutionCall& call);

/// Whether `planned_workspace` has an engine; throws where cuDNN fails.
bool has_planned_engine(const ConvolutionCall& call);

/// forward: x, weight -> y. backward_data: dy, weight -> dx. backward_weight: x, dy -> dweight.
struct ConvolutionBuffers {
  const void *first = nullptr, *second = nullptr, *bias = nullptr;
  void *result = nullptr, *workspace = nullptr;
};

/// Enqueues it on the GPU's default stream.
void run(const Convolution& convolution, const ConvolutionBuffers& buffers);

/// The engine that would be chosen on a GPU that need not be there, described as cuDNN does
/// (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION): as `table` offers, where it is given, else the
/// fastest by `timer`, else by heuristics.
EngineChoice choose_engine(const ConvolutionCall& call, const std::string& properties,
                           EngineTable* table = nullptr, const EngineTimer& timer = {});

}  // namespace brim::cuda
