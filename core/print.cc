// Tensors as text.
#include <fmt/format.h>

#include <cmath>

#include "brim/core/tensor.h"

namespace brim {
namespace {

constexpr int64_t kAllBelow = 200;  // tensors of more elements show only their edges
constexpr int64_t kEdge = 3;

std::string element(double value, Dtype dtype) {
  if (dtype == Dtype::boolean) return value != 0 ? "true" : "false";
  return is_floating(dtype) ? fmt::format("{:.5g}", value) : fmt::format("{:.0f}", value);
}

struct Printer {
  const std::vector<double>& values;
  const Shape& shape;
  Dtype dtype;
  bool all;

  std::string print(int axis, int64_t offset, int64_t count) const {
    if (axis == shape.size()) return element(values[static_cast<size_t>(offset)], dtype);
    int64_t n = shape[axis], step = n == 0 ? 0 : count / n;
    bool inner = axis + 1 == shape.size();
    std::string separator = inner ? ", " : ",\n" + std::string(static_cast<size_t>(axis) + 1, ' ');
    std::string text = "[";
    for (int64_t i = 0; i < n; ++i) {
      if (i > 0) text += separator;
      if (!all && n > 2 * kEdge && i == kEdge) {
        text += "..." + separator;
        i = n - kEdge;
      }
      text += print(axis + 1, offset + i * step, step);
    }
    return text + "]";
  }
};

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "tensor(undefined)";
  std::string head = fmt::format("tensor({}{} on {})", to_string(tensor.dtype()),
                                 to_string(tensor.shape()), to_string(tensor.device()));
  if (tensor.device().is_meta()) return head;
  std::vector<double> values = tensor.to_vector<double>();
  Printer printer{values, tensor.shape(), tensor.dtype(), tensor.numel() <= kAllBelow};
  return head + " " + printer.print(0, 0, tensor.numel());
}

}  // namespace brim
