// New tensors.
#include <algorithm>

#include "brim/core/kernels.h"

namespace brim {
namespace {

memory::BufferShape described(const Shape& shape, Dtype dtype) {
  memory::BufferShape described{.dims = shape.size(), .dtype = to_string(dtype).data()};
  std::ranges::copy(shape, described.sizes);
  return described;
}

}  // namespace

Tensor empty(const Shape& shape, const TensorOptions& options) {
  int64_t bytes = 0;
  bool overflow = __builtin_mul_overflow(numel(shape), size_of(options.dtype), &bytes);
  expect<ShapeError>(!overflow, "empty", "{} of {} is beyond 2^63 - 1 bytes", shape, options.dtype);
  auto storage = std::make_shared<Storage>(options.device, bytes, memory::current_category(),
                                           described(shape, options.dtype));
  return Tensor(std::move(storage), {shape, contiguous_strides(shape), 0, options.dtype});
}

Tensor full(const Shape& shape, double value, const TensorOptions& options) {
  Tensor tensor = empty(shape, options);
  fill(tensor, value);
  return tensor;
}

Tensor zeros(const Shape& shape, const TensorOptions& options) { return full(shape, 0, options); }
Tensor ones(const Shape& shape, const TensorOptions& options) { return full(shape, 1, options); }

Tensor empty_like(const Tensor& like) {
  return empty(like.shape(), {.dtype = like.dtype(), .device = like.device()});
}

Tensor zeros_like(const Tensor& like) {
  return zeros(like.shape(), {.dtype = like.dtype(), .device = like.device()});
}

template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape, Device device) {
  expect<ShapeError>(static_cast<int64_t>(values.size()) == numel(shape), "from_vector",
                     "{} values do not fill shape {}", values.size(), shape);
  if (device.is_meta()) return empty(shape, {.dtype = dtype_of<T>, .device = device});
  Tensor tensor = empty(shape, {.dtype = dtype_of<T>});
  T* to = tensor.data<T>();
  for (size_t i = 0; i < values.size(); ++i) to[i] = values[i];
  tensor.storage()->note_write("from_vector");
  return convert_to(tensor, {.dtype = dtype_of<T>, .device = device});
}

template Tensor from_vector(const std::vector<float>&, const Shape&, Device);
template Tensor from_vector(const std::vector<double>&, const Shape&, Device);
template Tensor from_vector(const std::vector<Float16>&, const Shape&, Device);
template Tensor from_vector(const std::vector<BFloat16>&, const Shape&, Device);
template Tensor from_vector(const std::vector<int8_t>&, const Shape&, Device);
template Tensor from_vector(const std::vector<uint8_t>&, const Shape&, Device);
template Tensor from_vector(const std::vector<int32_t>&, const Shape&, Device);
template Tensor from_vector(const std::vector<int64_t>&, const Shape&, Device);
template Tensor from_vector(const std::vector<bool>&, const Shape&, Device);

Tensor arange(int64_t count, const TensorOptions& options) {
  Tensor tensor = empty({count}, options);
  launch(kernel::arange, {}, {tensor});
  return tensor;
}

Tensor uniform(const Shape& shape, float low, float high, RandomKey key,
               const TensorOptions& options) {
  Tensor tensor = empty(shape, options);
  fill_uniform(tensor, low, high, key);
  return tensor;
}

Tensor normal(const Shape& shape, float deviation, RandomKey key, const TensorOptions& options) {
  Tensor tensor = empty(shape, options);
  fill_normal(tensor, deviation, key);
  return tensor;
}

}  // namespace brim
