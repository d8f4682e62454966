// Engines of cuDNN for a convolution: those that are acceptable, one rebuilt from what was kept of
// it, and the choice among them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "brim/ops/cuda/convolution_graph.cuh"
#include "brim/ops/cudnn_benchmark.h"
#include "brim/ops/engine_table.h"

namespace brim::cuda {

/// What engines are chosen for: a GPU that is here, as cuDNN finds it.
CudnnDescriptor device_properties(Device device);
/// One that need not be here, as the text describes it.
CudnnDescriptor device_properties(const std::string& json);

/// With its plan. What an engine says of itself is in `choice`, but for `timed`.
struct Engine {
  std::vector<CudnnDescriptor> parts;  // that its configuration was made of
  CudnnDescriptor config, plan;
  EngineChoice choice;
};

/// The first `most` by cuDNN's heuristics that are acceptable: deterministic, in the precision that
/// is asked for, and with no more workspace than the cap. Throws `UnsupportedError` where there is
/// none, `DeviceError` where the library fails: that is no answer.
std::vector<Engine> find_engines(const ConvolutionCall& call, const ConvolutionGraph& graph,
                                 const CudnnDescriptor& device, size_t most);

/// The engine that was kept as `kept`. Nothing where the library refuses, where it is not
/// acceptable, or has another workspace: then it is of another version, or was never one.
std::optional<Engine> rebuild_engine(const ConvolutionCall& call, const ConvolutionGraph& graph,
                                     const CudnnDescriptor& device, const EngineChoice& kept);

/// What engines are chosen by.
struct EngineSelection {
  EngineTable& table;
  /// Where they are to be timed. The engines outlive the timer.
  std::function<EngineTimer(const std::vector<Engine>&)> make_timer = {};
};

/// What the table offers; else the fastest by the timer; else the first. The table has it then.
/// Throws as `find_engines`.
Engine select_engine(const ConvolutionCall& call, const ConvolutionGraph& graph,
                     const CudnnDescriptor& device, const EngineSelection& selection);

/// Enqueues the convolution on the default stream of the handle's GPU.
void execute(const ConvolutionCall& call, cudnnHandle_t handle, const Engine& engine,
             const ConvolutionBuffers& buffers);

/// Times engines on a GPU, one run at a time, with bytes of `source` that the timer holds. Where it
/// has not enough for the tensors and the largest workspace, no engine can run.
EngineTimer engine_timer(const ConvolutionCall& call, Device device,
                         const std::vector<Engine>& engines, memory::Source& source);

/// Does an engine with these notes give the same bits every time, with the rounding errors of a
/// plain sum in `dtype`, of operands in TF32 where that is allowed?
bool is_acceptable(const std::vector<cudnnBackendNumericalNote_t>& notes, Dtype dtype,
                   bool allow_tf32);

}  // namespace brim::cuda
