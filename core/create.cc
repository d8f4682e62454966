// New tensors.
#include "brim/base/parallel.h"
#include "brim/core/tensor.h"

namespace brim {

Tensor empty(const Shape& shape, const TensorOptions& options) {
  int64_t bytes = 0;
  bool overflow = __builtin_mul_overflow(numel(shape), size_of(options.dtype), &bytes);
  expect<ShapeError>(!overflow, "empty", "{} of {} is beyond 2^63 - 1 bytes", to_string(shape),
                     to_string(options.dtype));
  return Tensor(std::make_shared<Storage>(options.device, bytes, memory::current_category()),
                {shape, contiguous_strides(shape), 0, options.dtype});
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
                     "{} values do not fill shape {}", values.size(), to_string(shape));
  Tensor tensor = empty(shape, {.dtype = dtype_of<T>, .device = device});
  if (device.is_meta()) return tensor;
  T* to = tensor.data<T>();
  for (size_t i = 0; i < values.size(); ++i) to[i] = values[i];
  return tensor;
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

namespace {

// Element i, in row-major order, is value(i), which must be pure; nothing on the meta device.
template <class Value>
Tensor generate(const Shape& shape, const TensorOptions& options, const Value& value) {
  Tensor tensor = empty(shape, options);
  if (options.device.is_meta()) return tensor;
  expect<DeviceError>(options.device.is_cpu(), "generate", "cannot draw on {}",
                      to_string(options.device));
  visit_dtype(options.dtype, [&]<class T>() {
    T* to = tensor.data<T>();
    parallel_for(tensor.numel(), 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = convert<T>(value(i));
    });
  });
  return tensor;
}

}  // namespace

Tensor arange(int64_t count, const TensorOptions& options) {
  return generate({count}, options, [](int64_t i) { return i; });
}

Tensor uniform(const Shape& shape, float low, float high, RandomKey key,
               const TensorOptions& options) {
  return generate(shape, options, [&](int64_t i) {
    return low + (high - low) * random_uniform(key, 0, static_cast<uint64_t>(i));
  });
}

Tensor normal(const Shape& shape, float deviation, RandomKey key, const TensorOptions& options) {
  return generate(shape, options, [&](int64_t i) {
    return deviation * random_normal(key, 0, static_cast<uint64_t>(i));
  });
}

}  // namespace brim
