#include "brim/tests/support/compare.h"

#include <cmath>
#include <cstring>

namespace brim::testing {
namespace {

std::string index_of(size_t element, const Shape& shape) {
  Dims index = Dims::filled(shape.size(), 0);
  auto rest = static_cast<int64_t>(element);
  for (int axis = shape.size() - 1; axis >= 0; --axis) {
    index[axis] = rest % shape[axis];
    rest /= shape[axis];
  }
  return to_string(index);
}

double rounded_to(Dtype dtype, double value) {
  return visit_dtype(dtype, [&]<class T>() { return convert<double>(convert<T>(value)); });
}

double error_of(double got, double expected) {
  if (std::isnan(got) && std::isnan(expected)) return 0;
  if (got == expected) return 0;  // also infinities
  double error = std::abs(got - expected);
  return std::isnan(error) ? INFINITY : error;
}

}  // namespace

std::string bit_difference(const Tensor& got, const Tensor& expected) {
  if (got.defined() != expected.defined())
    return fmt::format("{}, expected {}", got.defined() ? "defined" : "undefined",
                       expected.defined() ? "defined" : "undefined");
  if (!got.defined()) return "";
  if (got.dtype() != expected.dtype())
    return fmt::format("{}, expected {}", to_string(got.dtype()), to_string(expected.dtype()));
  if (got.shape() != expected.shape())
    return fmt::format("shape {}, expected {}", to_string(got.shape()),
                       to_string(expected.shape()));
  if (got.device().is_meta()) return "";
  Tensor a = contiguous(got), b = contiguous(expected);
  auto size = static_cast<size_t>(size_of(got.dtype())), count = static_cast<size_t>(got.numel());
  const char *x = static_cast<const char*>(a.data()), *y = static_cast<const char*>(b.data());
  for (size_t i = 0; i < count; ++i)
    if (std::memcmp(x + i * size, y + i * size, size) != 0)
      return fmt::format("element {}: got {:.17g}, expected {:.17g}", index_of(i, got.shape()),
                         a.to_vector<double>()[i], b.to_vector<double>()[i]);
  return "";
}

std::string worst_error(const Tensor& got, const std::vector<double>& expected,
                        const std::vector<double>& allowed) {
  std::vector<double> values = got.to_vector<double>();
  size_t worst = 0;
  double worst_ratio = 1;
  bool failed = false;
  for (size_t i = 0; i < values.size(); ++i) {
    double target = expected[i], stored = rounded_to(got.dtype(), target);
    if (is_floating(got.dtype()) && std::isinf(stored)) target = stored;
    double error = error_of(values[i], target);
    double ratio = error == 0 ? 0 : error / allowed[i];
    if (error != 0 && !std::isfinite(allowed[i])) ratio = HUGE_VAL;
    if (!(ratio > worst_ratio)) continue;
    worst = i;
    worst_ratio = ratio;
    failed = true;
  }
  if (!failed) return "";
  return fmt::format("element {}: got {:.9g}, expected {:.9g}, error {:.3g}, allowed {:.3g}",
                     index_of(worst, got.shape()), values[worst], expected[worst],
                     error_of(values[worst], expected[worst]), allowed[worst]);
}

}  // namespace brim::testing
