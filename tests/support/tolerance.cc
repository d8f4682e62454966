#include "brim/tests/support/tolerance.h"

#include <algorithm>
#include <cmath>

namespace brim::testing {
namespace {

constexpr int kDraws = 8;  // all of them below a fifth of the deviation: chance 4e-7

double smallest_subnormal(Dtype dtype) {
  switch (dtype) {
    case Dtype::float16:
      return 0x1.0p-24;
    case Dtype::bfloat16:
      return 0x1.0p-133;
    case Dtype::float32:
      return 0x1.0p-149;
    default:
      return 0;
  }
}

double unit_roundoff(Dtype dtype) { return epsilon(dtype) / 2; }

Tensors perturbed(const Tensors& inputs, double step, RandomKey key) {
  Tensors result = inputs;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].defined() || inputs[k].dtype() != Dtype::float64) continue;
    std::vector<double> values = inputs[k].to_vector<double>();
    for (size_t i = 0; i < values.size(); ++i)
      values[i] *= 1 + (random_bits(key, k, i) & 1 ? step : -step);
    result[k] = from_vector(values, inputs[k].shape());
  }
  return result;
}

}  // namespace

double probe_step(Dtype dtype) {
  return unit_roundoff(is_low_precision(dtype) ? dtype : Dtype::float32);
}

Values allowances(const ErrorModel& model, const Values& expected, const Values& sensitivity) {
  bool wide = model.dtype == Dtype::float64 && model.stored == Dtype::float64;
  double n = static_cast<double>(std::max<int64_t>(model.reduction, 1)), m = std::max(model.ops, 1);
  double growth = 1 + std::log2(n) + (wide ? std::sqrt(n) : 0);
  double compute = 4 * m * unit_roundoff(wide ? Dtype::float64 : Dtype::float32) * growth;
  double store = is_low_precision(model.stored) ? unit_roundoff(model.stored) : 0;
  double between = is_low_precision(model.dtype) ? 2 * unit_roundoff(model.dtype) * (m - 1) : 0;
  Values allowed(expected.size(), 0.0);
  if (!is_floating(model.stored)) return allowed;
  for (size_t i = 0; i < expected.size(); ++i) {
    double f = std::abs(expected[i]), size = sensitivity[i] + f;
    allowed[i] = compute * (size + model.magnitude) + between * size + store * f +
                 smallest_subnormal(model.stored) / 2;
  }
  return allowed;
}

std::vector<Values> sensitivities(const Evaluate& evaluate, const Tensors& inputs,
                                  const std::vector<Values>& at, double step) {
  std::vector<Values> largest;
  for (const Values& values : at) largest.emplace_back(values.size(), 0.0);
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    std::vector<Values> moved = evaluate(perturbed(inputs, step, derive(RandomKey{101}, draw)));
    for (size_t k = 0; k < at.size(); ++k)
      for (size_t i = 0; i < at[k].size(); ++i) {
        double change = std::abs(moved[k][i] - at[k][i]) / step;
        if (change > largest[k][i]) largest[k][i] = change;
      }
  }
  return largest;
}

}  // namespace brim::testing
