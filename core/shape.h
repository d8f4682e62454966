// Shapes, strides and axes: up to eight whole numbers, stored in place, so copying them asks for no
// memory. A `Dims` may hold any numbers: `numel`, which every new tensor goes through, refuses
// negative sizes. The rules that ops share, broadcasting and axes counted from the end, are here
// too; to walk strided buffers use `StridedLoop` (core/strided_loop.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "brim/base/error.h"
#include "brim/base/text_formatter.h"

namespace brim {

class Dims {
 public:
  static constexpr int kMax = 8;

  Dims() = default;
  Dims(std::initializer_list<int64_t> values)
      : Dims(std::span<const int64_t>(values.begin(), values.size())) {}
  explicit Dims(std::span<const int64_t> values) {
    for (int64_t value : values) push_back(value);
  }
  static Dims filled(int count, int64_t value) {
    Dims dims;
    for (int i = 0; i < count; ++i) dims.push_back(value);
    return dims;
  }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t& operator[](int i) { return values_[static_cast<size_t>(i)]; }
  int64_t operator[](int i) const { return values_[static_cast<size_t>(i)]; }
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + size_; }
  int64_t back() const { return values_[static_cast<size_t>(size_ - 1)]; }
  void push_back(int64_t value) {
    expect<ShapeError>(size_ < kMax, "shape", "expected at most {} dimensions", int{kMax});
    values_[static_cast<size_t>(size_++)] = value;
  }
  friend bool operator==(const Dims& a, const Dims& b) { return std::ranges::equal(a, b); }

 private:
  std::array<int64_t, kMax> values_{};
  int size_ = 0;
};

using Shape = Dims;    ///< elements along each axis
using Strides = Dims;  ///< elements (not bytes) from one index to the next along each axis

/// `[8,56,56,64]`.
std::string to_string(const Dims& dims);
/// Elements of a shape; 1 for a scalar. Throws `ShapeError` when negative or beyond 2^63 - 1.
int64_t numel(const Shape& shape);
/// Row-major strides.
Strides contiguous_strides(const Shape& shape);
/// The shape that `a` and `b` broadcast to (NumPy's rules); throws `ShapeError` under `tag`.
Shape broadcast_shapes(const Shape& a, const Shape& b, const char* tag);
/// Axis in [0, rank): counts from the end when negative; throws `ShapeError` under `tag`.
int normalize_axis(int axis, int rank, const char* tag);

}  // namespace brim

template <>
struct fmt::formatter<brim::Dims> : brim::TextFormatter<brim::Dims> {};
