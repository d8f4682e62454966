#include "brim/autograd/gradcheck.h"

#include <cmath>

#include "brim/autograd/backward.h"

namespace brim {
namespace {

using Function = std::function<Tensors(const Tensors&)>;

Tensor weights_of(const Tensor& output, size_t number) {
  return uniform(output.shape(), -1, 1, derive(RandomKey{17}, number),
                 {.dtype = output.dtype(), .device = output.device()});
}

double weighted_sum(const Function& function, const Tensors& inputs) {
  autograd::NoGradScope no_grad;
  double sum = 0;
  Tensors outputs = function(inputs);
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!is_floating(outputs[k].dtype())) continue;
    auto values = outputs[k].to_vector<double>(), w = weights_of(outputs[k], k).to_vector<double>();
    for (size_t i = 0; i < values.size(); ++i) sum += values[i] * w[i];
  }
  return sum;
}

Tensors fresh_copies(const Tensors& inputs) {
  Tensors copies;
  for (const Tensor& input : inputs) {
    if (!input.defined() || !is_floating(input.dtype())) {
      copies.push_back(input);
      continue;
    }
    // Same strides: a strided input stays strided.
    Tensor base = input.is_contiguous() ? clone(input) : input.detach();
    copies.push_back(base.set_requires_grad(input.requires_grad()));
  }
  return copies;
}

void run_backward(const Function& function, const Tensors& inputs) {
  Tensors outputs = function(inputs);
  for (size_t k = 0; k < outputs.size(); ++k)
    if (outputs[k].requires_grad())
      backward(outputs[k], {.grad = weights_of(outputs[k], k), .retain_graph = true});
}

// The address of element i, in row-major order of the shape, under any strides.
double& element(const Tensor& tensor, int64_t i) {
  int64_t at = 0;
  for (int axis = tensor.dim() - 1; axis >= 0; --axis) {
    at += i % tensor.shape()[axis] * tensor.strides()[axis];
    i /= tensor.shape()[axis];
  }
  return tensor.data<double>()[at];
}

double numeric_gradient(const Function& function, const Tensors& inputs, double& value,
                        double step) {
  double before = value;
  struct Restore {  // also when the function throws: a strided input is the caller's
    double &at, value;
    ~Restore() { at = value; }
  } restore{value, before};
  value = before + step;
  double above = weighted_sum(function, inputs);
  value = before - step;
  double below = weighted_sum(function, inputs);
  return (above - below) / (2 * step);
}

}  // namespace

GradcheckResult gradcheck(const Function& function, const Tensors& inputs,
                          const GradcheckOptions& options) {
  Tensors copies = fresh_copies(inputs);
  run_backward(function, copies);
  GradcheckResult result;
  for (size_t k = 0; k < copies.size(); ++k) {
    const Tensor& input = copies[k];
    if (!input.defined() || !input.requires_grad()) continue;
    expect<DtypeError>(input.dtype() == Dtype::float64, "gradcheck",
                       "input {} is {}; differences need float64", k, input.dtype());
    std::vector<double> analytic(static_cast<size_t>(input.numel()), 0.0);
    if (input.grad().defined()) analytic = input.grad().to_vector<double>();
    for (int64_t i = 0; i < input.numel(); ++i) {
      double& value = element(input, i);
      if (options.skip && options.skip(k, value)) continue;
      double numeric = numeric_gradient(function, copies, value, options.step);
      double got = analytic[static_cast<size_t>(i)];
      double error =
          std::abs(got - numeric) / (options.absolute + options.relative * std::abs(numeric));
      if (!(error > result.worst) && !std::isnan(error)) continue;
      result.worst = error;
      result.passed = error <= 1;
      result.message = fmt::format(
          "input {}, element {}: backward gives {:.12g}, differences {:.12g}", k, i, got, numeric);
      if (std::isnan(error)) return result;
    }
  }
  return result;
}

}  // namespace brim
