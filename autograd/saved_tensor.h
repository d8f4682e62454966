// What backward needs is held in saved tensors, and in nothing else. Today a saved tensor is
// resident: it holds the storage. It remembers the storage's version, so that a value which was
// overwritten in the meantime is refused rather than used.
#pragma once

#include "brim/core/tensor.h"

namespace brim::autograd {

class SavedTensor {
 public:
  SavedTensor() = default;
  explicit SavedTensor(const Tensor& tensor);

  /// The tensor, unknown to the tape. Throws `AutogradError`, naming the op that wrote to it,
  /// when it changed since it was saved.
  Tensor get(const char* op) const;

 private:
  Layout layout_;
  TapeHold hold_;
  uint32_t version_ = 0;
};

}  // namespace brim::autograd
