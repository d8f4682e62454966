// A convolution as a graph of cuDNN's: one operation, or a second one that adds a bias; and the
// engines that could run it.
#pragma once

#include <string>
#include <vector>

#include "brim/ops/cuda/convolution.h"
#include "brim/ops/cuda/cudnn_descriptor.cuh"

namespace brim::cuda {

// Numbers of the tensors in a graph.
inline constexpr int64_t kX = 'x', kWeight = 'w', kY = 'y', kBias = 'b', kSum = 's';

/// The graph, with all that it refers to.
class ConvolutionGraph {
 public:
  explicit ConvolutionGraph(const ConvolutionCall& call);
  const CudnnDescriptor& get() const { return graph_; }

 private:
  void add_bias(const ConvolutionCall& call);

  CudnnDescriptor x_, weight_, y_, window_, operation_;
  CudnnDescriptor sum_, bias_, plus_, addition_;  // sum: y before the bias, in no memory
  CudnnDescriptor graph_;
};

/// A GPU that need not be there; none where the text is empty, which means the current one.
CudnnDescriptor device_properties(const std::string& json);

/// An engine with its plan.
struct Engine {
  CudnnDescriptor config, plan;
  int64_t number = 0, workspace = 0;
};

/// The first engine by cuDNN's heuristics that is acceptable: deterministic, in full precision, and
/// with no more workspace than the cap. Throws `DeviceError` where there is none.
Engine find_engine(const ConvolutionCall& call, const ConvolutionGraph& graph,
                   const CudnnDescriptor& device);

/// Does an engine with these notes give the same bits every time, with the rounding errors of a
/// plain sum in `dtype`?
bool is_acceptable(const std::vector<cudnnBackendNumericalNote_t>& notes, Dtype dtype);

}  // namespace brim::cuda
