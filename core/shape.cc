#include "brim/core/shape.h"

namespace brim {

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (int64_t value : dims) text += (text.size() > 1 ? "," : "") + std::to_string(value);
  return text + "]";
}

int64_t numel(const Shape& shape) {
  int64_t count = 1;
  bool overflow = false, is_empty = false;
  for (int64_t n : shape) {
    if (n < 0) raise<ShapeError>("shape", "expected sizes of at least 0, got {}", shape);
    is_empty |= n == 0;
    overflow |= __builtin_mul_overflow(count, std::max<int64_t>(n, 1), &count);
  }
  // Asked for very often: the text is written only for who reads it.
  if (overflow) raise<ShapeError>("shape", "{} has more than 2^63 - 1 elements", shape);
  return is_empty ? 0 : count;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = Dims::filled(shape.size(), 1);
  for (int i = shape.size() - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * std::max<int64_t>(shape[i + 1], 1);
  return strides;
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* tag) {
  int rank = std::max(a.size(), b.size());
  Shape result = Dims::filled(rank, 1);
  for (int i = 1; i <= rank; ++i) {
    int64_t m = i <= a.size() ? a[a.size() - i] : 1, n = i <= b.size() ? b[b.size() - i] : 1;
    expect<ShapeError>(m == n || m == 1 || n == 1, tag, "shapes {} and {} do not broadcast", a, b);
    result[rank - i] = m == 1 ? n : m;
  }
  return result;
}

int normalize_axis(int axis, int rank, const char* tag) {
  expect<ShapeError>(axis >= -rank && axis < rank, tag, "axis {} is out of range for {} dimensions",
                     axis, rank);
  return axis < 0 ? axis + rank : axis;
}

}  // namespace brim
