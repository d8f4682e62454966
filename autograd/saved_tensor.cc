#include "brim/autograd/saved_tensor.h"

namespace brim::autograd {

SavedTensor::SavedTensor(const Tensor& tensor) {
  if (!tensor.defined()) return;
  layout_ = tensor.layout();
  hold_ = TapeHold(tensor.storage());
  version_ = tensor.storage()->version();
}

Tensor SavedTensor::get(const char* op) const {
  const auto& storage = hold_.storage();
  if (storage == nullptr) return {};
  expect<AutogradError>(storage->version() == version_, op,
                        "a saved tensor of shape {} was overwritten by '{}' after the forward pass",
                        to_string(layout_.shape), storage->last_writer());
  return Tensor(storage, layout_);
}

}  // namespace brim::autograd
