#include "brim/tests/support/non_finite.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "brim/tests/support/compare.h"
#include "brim/tests/support/conversions.h"
#include "brim/tests/support/execution.h"
#include "brim/tests/support/tolerance.h"

namespace brim::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = HUGE_VAL;

/// Where an op may do something else than its reference.
enum class Leave {
  /// More results than the reference's are NaN or infinite, or NaN where it has an infinity. What
  /// it has NaN is not finite, and what is finite is right.
  spreads,
  /// The reference says what NaN does, and not what infinities do.
  nan_alone,
};

struct Rule {
  const char* op;
  Leave leave;
  std::vector<int> inputs;  ///< that it is about; all where empty
  const char* why;
};

constexpr const char* kTransforms =
    "sums of transformed tiles, and zeros multiplied in at the border, reach neighbours";
constexpr const char* kShift =
    "what rounding took from the mean is added times the weight: 0 times infinity, or infinity "
    "minus infinity";

const std::vector<Rule> kRules = {
    {"conv2d", Leave::spreads, {}, kTransforms},
    {"fused_conv2d", Leave::spreads, {}, kTransforms},
    {"normalized_conv2d", Leave::spreads, {}, kTransforms},
    {"conv_transpose2d", Leave::spreads, {}, kTransforms},
    {"batch_norm", Leave::spreads, {1, 3}, kShift},
    {"normalized_conv2d", Leave::nan_alone, {2}, kShift},
};

/// What is put into an input: some of `values`, at one place or at one in four.
struct Poison {
  const char* name;
  std::vector<double> values;
  bool everywhere;
  bool records;  ///< gradients, as in training
};

const std::vector<Poison> kPoisons = {{"a NaN", {kNan}, false, true},
                                      {"an infinity", {kInf}, false, false},
                                      {"a negative infinity", {-kInf}, false, true},
                                      {"NaN and infinities", {kNan, kInf, -kInf}, true, false}};

class NonFiniteChecker {
 public:
  NonFiniteChecker(const OpSpec& spec, const OpSample& sample, const Tensors& inputs, Dtype dtype,
                   Device device, int ops)
      : sample_(sample),
        op_(spec.op),
        inputs_(inputs),
        dtype_(dtype),
        device_(device),
        ops_(ops),
        key_(derive(RandomKey{211}, spec.op + sample.name)) {}

  std::vector<std::string> faults() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Tensor& input = inputs_[i];
      if (!input.defined() || !is_floating(input.dtype()) || input.numel() == 0) continue;
      for (const Poison& poison : kPoisons)
        if (&poison == &kPoisons[0] || !may(Leave::nan_alone, i)) check_results(i, poison);
      if (sample_.differentiable && !may(Leave::spreads, i)) check_against_double(i);
    }
    if (sample_.differentiable)
      for (double value : {kNan, kInf}) check_incoming(value);
    return std::move(faults_);
  }

 private:
  template <class... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    faults_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  bool may(Leave leave, size_t input) const {
    return std::ranges::any_of(kRules, [&](const Rule& rule) {
      return rule.op == op_ && rule.leave == leave &&
             (rule.inputs.empty() || std::ranges::count(rule.inputs, static_cast<int>(input)) > 0);
    });
  }

  /// The element of a tensor that is changed where one is, another for each `draw`.
  size_t place(const Tensor& tensor, uint64_t draw) const {
    return random_bits(key_, draw, 0) % static_cast<size_t>(tensor.numel());
  }

  Tensors poisoned(size_t i, const Poison& poison) const {
    Values values = inputs_[i].to_vector<double>();
    const size_t first = place(inputs_[i], i + 16 * static_cast<size_t>(&poison - &kPoisons[0]));
    values[first] = poison.values[0];
    for (size_t k = 0; poison.everywhere && k < values.size(); ++k)
      if (const uint32_t bits = random_bits(key_, 1, k); bits % 4 == 0)
        values[k] = poison.values[bits / 4 % poison.values.size()];
    Tensors inputs = inputs_;
    inputs[i] = convert_to(from_vector(values, inputs_[i].shape()), {.dtype = inputs_[i].dtype()});
    return inputs;
  }

  Execution run(const Tensors& inputs, const Tensors& weights = {}) const {
    const Execution there = execute(sample_, on_device(inputs, device_), weights);
    return {on_device(there.outputs, Device::cpu()), on_device(there.weights, Device::cpu()),
            on_device(there.grads, Device::cpu())};
  }

  void check_results(size_t i, const Poison& poison) {
    const Tensors inputs = poisoned(i, poison);
    autograd::GradModeScope mode(poison.records);
    const Tensors got = run(inputs).outputs;
    const Tensors doubles = in_double(inputs);
    const Evaluate reference = [&](const Tensors& at) { return values_of(sample_.reference(at)); };
    std::vector<Values> expected = reference(doubles);
    const auto sizes = sensitivities(reference, doubles, expected, probe_step(dtype_));
    for (size_t k = 0; k < got.size(); ++k) {
      if (may(Leave::spreads, i)) allow_spreading(got[k], expected[k]);
      const ErrorModel model{dtype_, got[k].dtype(), sample_.reduction, ops_, sample_.magnitude};
      if (auto text = worst_error(got[k], expected[k], allowances(model, expected[k], sizes[k]));
          !text.empty())
        fault("{} in input {}: output {} is off: {}", poison.name, i, k, text);
    }
  }

  static void allow_spreading(const Tensor& got, Values& expected) {
    const Values values = got.to_vector<double>();
    for (size_t j = 0; j < values.size(); ++j)
      if (!std::isfinite(values[j]) && !std::isnan(expected[j])) expected[j] = values[j];
  }

  /// Gradients of float64 on the CPU, where kernels are plain, are the reference for the others.
  void check_against_double(size_t i) {
    if (dtype_ == Dtype::float64 && device_.is_cpu()) return;
    const Tensors inputs = poisoned(i, kPoisons[0]);
    const Execution got = run(inputs), expected = execute(sample_, in_double(inputs));
    for (size_t j = 0; j < inputs_.size(); ++j)
      compare_not_finite(fmt::format("a NaN in input {}", i), got.grads[j], expected.grads[j], j,
                         [](double value) { return std::isnan(value); });
  }

  /// With `value` as the gradient of one element, and 0 of all others.
  void check_incoming(double value) {
    const Execution first = run(inputs_);
    for (size_t k = 0; k < first.outputs.size(); ++k) {
      if (!first.weights[k].defined() || first.outputs[k].numel() == 0) continue;
      const Execution one = run(inputs_, incoming(first.outputs, k, 1)),
                      bad = run(inputs_, incoming(first.outputs, k, value));
      for (size_t j = 0; j < inputs_.size(); ++j)
        compare_not_finite(fmt::format("{} as a gradient of output {}", value, k), bad.grads[j],
                           one.grads[j], j, [](double share) { return share != 0; });
    }
  }

  Tensors incoming(const Tensors& outputs, size_t k, double value) const {
    Tensors all;
    for (const Tensor& output : outputs)
      all.push_back(zeros(output.shape(), {.dtype = Dtype::float64}));
    Values values(static_cast<size_t>(outputs[k].numel()), 0.0);
    values[place(outputs[k], 8 + k)] = value;
    all[k] = from_vector(values, outputs[k].shape());
    return all;
  }

  template <class Reaches>
  void compare_not_finite(const std::string& when, const Tensor& got, const Tensor& reference,
                          size_t input, const Reaches& reaches) {
    if (!got.defined() || !reference.defined() || got.shape() != reference.shape()) return;
    const Values values = got.to_vector<double>(), expected = reference.to_vector<double>();
    for (size_t j = 0; j < values.size(); ++j)
      if (reaches(expected[j]) && std::isfinite(values[j]))
        return fault("{}: the gradient of input {} is finite at element {} of {}: {:.9g}", when,
                     input, j, to_string(got.shape()), values[j]);
  }

  const OpSample& sample_;
  std::string op_;
  const Tensors& inputs_;
  Dtype dtype_;
  Device device_;
  int ops_;
  RandomKey key_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> non_finite_faults(const OpSpec& spec, const OpSample& sample,
                                           const Tensors& inputs, Dtype dtype, Device device,
                                           int ops) {
  return NonFiniteChecker(spec, sample, inputs, dtype, device, ops).faults();
}

}  // namespace brim::testing
