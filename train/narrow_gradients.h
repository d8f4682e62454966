// Gradients of float32 parameters that are kept in a half type: each is rounded as soon as backward
// has all of it, so that few are there in float32. Of `TrainStep`.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "brim/core/tensor.h"

namespace brim {

class NarrowGradients {
 public:
  /// For one backward: what there is of earlier ones is set aside, to be added to.
  NarrowGradients(const std::vector<Tensor>& parameters, Dtype dtype);
  /// Puts back what backward did not come to.
  ~NarrowGradients();
  NarrowGradients(const NarrowGradients&) = delete;
  NarrowGradients& operator=(const NarrowGradients&) = delete;

  /// Backward has added up the gradient of this leaf; nothing is done for others than parameters.
  void complete(const Tensor& leaf);

 private:
  Dtype dtype_;
  std::unordered_set<const TensorBody*> parameters_;
  std::unordered_map<const TensorBody*, std::pair<Tensor, Tensor>> before_;  // leaf, gradient
};

}  // namespace brim
