#include "brim/tests/support/conversions.h"

#include <algorithm>

namespace brim::testing {

Dtype dtype_for(const OpSample& sample, size_t i, Dtype dtype) {
  bool wide = std::ranges::find(sample.wide, static_cast<int>(i)) != sample.wide.end();
  return wide && is_low_precision(dtype) ? Dtype::float32 : dtype;
}

Tensors converted(const Tensors& inputs, const std::function<Dtype(size_t)>& dtype) {
  Tensors result;
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool floats = inputs[i].defined() && is_floating(inputs[i].dtype());
    result.push_back(floats ? convert_to(inputs[i], {.dtype = dtype(i)}) : inputs[i]);
  }
  return result;
}

Tensors in_double(const Tensors& tensors) {
  return converted(tensors, [](size_t) { return Dtype::float64; });
}

Tensors on_device(const Tensors& tensors, Device device) {
  Tensors result;
  for (const Tensor& tensor : tensors)
    result.push_back(tensor.defined()
                         ? convert_to(tensor, {.dtype = tensor.dtype(), .device = device})
                         : tensor);
  return result;
}

Tensors changed(const Tensors& tensors, Tensor (*layout)(const Tensor&)) {
  Tensors result;
  for (const Tensor& tensor : tensors) result.push_back(layout(tensor));
  return result;
}

std::vector<Values> values_of(const Tensors& tensors) {
  std::vector<Values> values;
  for (const Tensor& tensor : tensors)
    values.push_back(tensor.defined() ? tensor.to_vector<double>() : Values());
  return values;
}

}  // namespace brim::testing
