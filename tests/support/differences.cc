#include "brim/tests/support/differences.h"

#include <cmath>

#include "brim/autograd/gradcheck.h"
#include "brim/tests/support/tolerance.h"

namespace brim::testing {
namespace {

constexpr double kStep = 1e-6;
constexpr int64_t kFewElements = 600;  // two forwards for each are affordable

// |sum of weighted outputs| at most: its rounding, over the step, limits what differences tell.
double rounding_of_differences(const Execution& run) {
  double size = 1;
  for (const Tensor& output : run.outputs)
    if (is_floating(output.dtype()))
      for (double value : output.to_vector<double>()) size += std::abs(value);
  return 4 * epsilon(Dtype::float64) * size / kStep;
}

double weighted_sum(const OpSample& sample, const Tensors& inputs, const Tensors& weights) {
  autograd::NoGradScope no_grad;
  Tensors outputs = sample.run(inputs);
  double sum = 0;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!weights[k].defined()) continue;
    Values y = outputs[k].to_vector<double>(), w = weights[k].to_vector<double>();
    for (size_t e = 0; e < y.size(); ++e) sum += y[e] * w[e];
  }
  return sum;
}

std::string element_fault(const OpSample& sample, const Tensors& inputs, const Execution& run) {
  Tensors leaves;
  for (size_t i = 0; i < inputs.size(); ++i) {
    leaves.push_back(inputs[i].defined() ? inputs[i].detach() : Tensor());
    if (wants_grad(sample, i)) leaves.back().set_requires_grad();
  }
  GradcheckOptions options{.step = kStep, .skip = sample.kink};
  options.absolute = 1e-9 + rounding_of_differences(run);
  GradcheckResult result = gradcheck(sample.run, leaves, options);
  return result ? "" : result.message;
}

// A random direction of +-1 in input i, 0 at kinks.
Values direction_in(const OpSample& sample, size_t i, const Values& x, uint64_t draw) {
  Values direction(x.size());
  for (size_t e = 0; e < x.size(); ++e) {
    bool kink = sample.kink && sample.kink(i, x[e]);
    direction[e] = kink ? 0 : random_bits(RandomKey{31}, draw, e) & 1 ? 1 : -1;
  }
  return direction;
}

Tensor moved(const Tensor& x, const Values& direction, double step) {
  Values values = x.to_vector<double>();
  for (size_t e = 0; e < values.size(); ++e) values[e] += direction[e] * step;
  return from_vector(values, x.shape());
}

std::string direction_fault(const OpSample& sample, const Tensors& inputs, const Execution& run,
                            size_t i, uint64_t draw) {
  Values direction = direction_in(sample, i, inputs[i].to_vector<double>(), draw);
  Values gradient = run.grads[i].to_vector<double>();
  double slope = 0, size = 0;  // size bounds what curvature contributes
  for (size_t e = 0; e < gradient.size(); ++e) {
    slope += direction[e] * gradient[e];
    size += std::abs(gradient[e]);
  }
  Tensors above = inputs, below = inputs;
  above[i] = moved(inputs[i], direction, kStep);
  below[i] = moved(inputs[i], direction, -kStep);
  double numeric =
      (weighted_sum(sample, above, run.weights) - weighted_sum(sample, below, run.weights)) /
      (2 * kStep);
  double allowed = 1e-6 * size + rounding_of_differences(run);
  if (std::abs(numeric - slope) <= allowed) return "";
  return fmt::format(
      "input {}, along a random direction: backward gives {:.12g}, differences {:.12g}, allowed "
      "{:.3g}",
      i, slope, numeric, allowed);
}

}  // namespace

std::string difference_fault(const OpSample& sample, const Tensors& inputs, const Execution& run) {
  int64_t elements = 0;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (wants_grad(sample, i)) elements += inputs[i].numel();
  if (elements <= kFewElements) return element_fault(sample, inputs, run);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!wants_grad(sample, i) || !run.grads[i].defined()) continue;
    for (uint64_t draw = 0; draw < 4; ++draw)
      if (auto text = direction_fault(sample, inputs, run, i, draw); !text.empty()) return text;
  }
  return "";
}

}  // namespace brim::testing
