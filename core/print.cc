// Tensors as text.
#include <fmt/format.h>

#include "brim/core/tensor.h"

namespace brim {
namespace {

constexpr int64_t kAllBelow = 200;  // tensors of more elements show only their edges
constexpr int64_t kEdge = 3;

template <class T>
std::string element(T value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "true" : "false";
  else if constexpr (std::is_integral_v<T>)
    return std::to_string(value);
  else
    return fmt::format("{:.5g}", convert<double>(value));
}

// Reads through the strides: nothing is copied, whatever the size.
template <class T>
struct Printer {
  const T* data;
  const Shape& shape;
  const Strides& strides;
  bool all;

  std::string print(int axis, int64_t offset) const {
    if (axis == shape.size()) return element(data[offset]);
    int64_t n = shape[axis];
    bool inner = axis + 1 == shape.size();
    std::string separator = inner ? ", " : ",\n" + std::string(static_cast<size_t>(axis) + 1, ' ');
    std::string text = "[";
    for (int64_t i = 0; i < n; ++i) {
      if (i > 0) text += separator;
      if (!all && n > 2 * kEdge && i == kEdge) {
        text += "..." + separator;
        i = n - kEdge;
      }
      text += print(axis + 1, offset + i * strides[axis]);
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
  Tensor host = convert_to(tensor, {.dtype = tensor.dtype(), .device = Device::cpu()});
  return visit_dtype(host.dtype(), [&]<class T>() {
    Printer<T> printer{host.data<T>(), host.shape(), host.strides(), tensor.numel() <= kAllBelow};
    return head + " " + printer.print(0, 0);
  });
}

}  // namespace brim
