// A saved tensor that backward reads by rows of its first dimension, such as some images of a batch
// at a time. Where the value was dropped and its rows can be made again by themselves, only those
// that are asked for are made, and they are gone with the last handle to them: they stay in the
// caches, and the whole is never there. Else it is the whole, as `BackwardCall::take_input` has it.
//
// For ops that sum over rows, such as the weight gradient of a convolution. The stretches, and so
// the order of the sums, must depend on shapes alone: whether `is_whole` may decide where a
// kernel's input comes from, never what is computed.
#pragma once

#include <vector>

#include "brim/autograd/saved_tensor.h"
#include "brim/core/tensor.h"

namespace brim::autograd {

class SavedRows {
 public:
  explicit SavedRows(Tensor whole) : whole_(std::move(whole)) {}
  /// Of a dropped value of which `can_rebuild_rows` (rebuild.h). `owned` may hold it, or be empty
  /// where others do; `reader` is the op that asks.
  SavedRows(SavedTensor owned, Value& value, const char* reader);

  /// Is there the whole tensor? Then it is best read at once.
  bool is_whole() const { return value_ == nullptr; }
  /// Rows [begin, end), unknown to the tape: a view of the whole, or made again, for which it
  /// throws as `rebuild` does. Observers see `Phase::recompute` with these rows each time.
  Tensor rows(int64_t begin, int64_t end) const;

 private:
  Tensor whole_;
  SavedTensor owned_;
  Value* value_ = nullptr;
  const char* reader_ = "";
  std::vector<Tensor> sources_;
};

}  // namespace brim::autograd
