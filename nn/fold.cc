#include "brim/nn/fold.h"

#include <cmath>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "brim/nn/batch_norm2d.h"
#include "brim/nn/conv2d.h"
#include "brim/nn/meta_run.h"

namespace brim::nn {
namespace {

struct NamedNorm {
  std::string name;
  BatchNorm2d* norm;
};
struct Pair {
  Conv2d* convolution;
  BatchNorm2d* norm;
};

std::vector<NamedNorm> norms_of(Module& model) {
  std::vector<NamedNorm> norms;
  for (const NamedModule& named : model.named_modules())
    if (auto* norm = dynamic_cast<BatchNorm2d*>(&named.module)) norms.push_back({named.name, norm});
  return norms;
}

/// Follows what reads the results of convolutions.
class Finder final : public autograd::OpObserver {
 public:
  /// The model is on the meta device.
  explicit Finder(Module& model) {
    for (const NamedModule& named : model.named_modules())
      if (auto* convolution = dynamic_cast<Conv2d*>(&named.module))
        if (!convolution->is_folded()) convolutions_[convolution->weight.body()] = convolution;
    for (const auto& [name, norm] : norms_of(model))
      if (!norm->is_folded()) norms_[norm->weight.body()] = norm;
    model.for_each_slot(
        [&](const std::string&, const Module::Slot& slot) { ++owners_[slot.tensor->body()]; });
  }

  void ran(const autograd::OpEvent& event) override {
    for (const Tensor& input : event.inputs) {
      if (!input.defined()) continue;
      ++reads_[input.body()];
      ++reads_of_storage_[input.storage().get()];
    }
    if (event.inputs.size() < 2) return;
    const TensorBody* weight = event.inputs[1].body();
    const std::string_view op = event.op.name();
    if (op == "conv2d" && convolutions_.contains(weight)) {
      const Tensor& result = event.outputs[0];
      reads_of_storage_[result.storage().get()] = 0;  // others had this address before
      results_[result.body()] = {result, weight};
    }
    // Only what is a result now: others may have had the address of one to come.
    const auto result = results_.find(event.inputs[0].body());
    if (op == "batch_norm" && norms_.contains(weight) && result != results_.end())
      calls_.push_back({result->second, weight});
  }

  /// The model's result is read by whoever called it.
  void finish(const Tensor& output) { ++reads_of_storage_[output.storage().get()]; }

  std::vector<Pair> pairs() const {
    std::vector<Pair> found;
    for (const auto& [read, norm] : calls_)
      if (is_read_once(read.tensor) && is_used_once(norm) && is_used_once(read.weight))
        found.push_back({convolutions_.at(read.weight), norms_.at(norm)});
    return found;
  }

 private:
  struct Result {
    Tensor tensor;  // kept, so that no other gets its address
    const TensorBody* weight;
  };
  struct NormCall {
    Result read;
    const TensorBody* weight;
  };

  /// By way of views too.
  bool is_read_once(const Tensor& tensor) const {
    return reads_of_storage_.at(tensor.storage().get()) == 1;
  }
  bool is_used_once(const TensorBody* weight) const {
    return owners_.at(weight) == 1 && reads_.at(weight) == 1;
  }

  std::unordered_map<const TensorBody*, Conv2d*> convolutions_;  // by weight
  std::unordered_map<const TensorBody*, BatchNorm2d*> norms_;
  std::unordered_map<const TensorBody*, int> owners_, reads_;
  std::unordered_map<const Storage*, int> reads_of_storage_;
  std::unordered_map<const TensorBody*, Result> results_;
  std::vector<NormCall> calls_;
};

std::vector<Pair> find_pairs(Module& model, const Shape& input) {
  MetaRun run(model);
  Finder finder(model);
  finder.finish(run.forward(input));
  return finder.pairs();
}

std::vector<double> values_of(const Tensor& tensor) {
  return convert_to(tensor, {.dtype = tensor.dtype(), .device = Device::cpu()}).to_vector<double>();
}

/// Of the dtype and on the device of `like`.
Tensor parameter_of(const std::vector<double>& values, const Shape& shape, const Tensor& like,
                    Dtype dtype) {
  memory::CategoryScope category(memory::Category::parameters);
  return convert_to(from_vector(values, shape), {.dtype = dtype, .device = like.device()});
}

void fold(Conv2d& convolution, BatchNorm2d& norm) {
  const std::vector<double> factor = values_of(norm.weight), shift = values_of(norm.bias),
                            mean = values_of(norm.running_mean),
                            variance = values_of(norm.running_var);
  std::vector<double> weight = values_of(convolution.weight), bias(factor.size());
  if (convolution.bias.defined()) bias = values_of(convolution.bias);
  const size_t window = weight.size() / factor.size();
  for (size_t k = 0; k < factor.size(); ++k) {
    const double scale = factor[k] / std::sqrt(variance[k] + norm.epsilon());
    for (size_t i = k * window; i < (k + 1) * window; ++i) weight[i] *= scale;
    bias[k] = shift[k] + (bias[k] - mean[k]) * scale;
  }
  const Tensor& like = convolution.weight;
  convolution.fold(parameter_of(weight, like.shape(), like, like.dtype()),
                   parameter_of(bias, norm.bias.shape(), like, like.dtype()));
  norm.fold_into(convolution);
}

}  // namespace

FoldReport fold_batch_norms(Module& model, const Shape& input) {
  model.require_values();
  std::vector<NamedNorm> norms = norms_of(model);
  for (const auto& [name, norm] : norms)
    expect<ValueError>(!norm->training(), "fold_batch_norms",
                       "expected a model in eval mode, got '{}' in training", name);
  for (const Pair& pair : find_pairs(model, input)) fold(*pair.convolution, *pair.norm);
  FoldReport report;
  for (const auto& [name, norm] : norms)
    (norm->is_folded() ? report.folded : report.left).push_back(name);
  return report;
}

}  // namespace brim::nn
