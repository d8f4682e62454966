// A convolution as a graph of cuDNN's: one operation, or a second one that adds a bias. The engines
// that could run it are in engine.cuh.
#pragma once

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

}  // namespace brim::cuda
