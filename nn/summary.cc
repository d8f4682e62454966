#include "brim/nn/summary.h"

#include <algorithm>
#include <map>

#include "brim/autograd/op.h"
#include "brim/base/bytes.h"
#include "brim/nn/meta_run.h"

namespace brim::nn {
namespace {

bool shares_storage(const Tensor& tensor, const Tensors& with) {
  return std::ranges::any_of(with, [&](const Tensor& other) {
    return other.defined() && other.storage() == tensor.storage();
  });
}

class Collector final : public autograd::OpObserver {
 public:
  std::vector<SummaryRow> rows;

  void ran(const autograd::OpEvent& event) override {
    SummaryRow row{.layer = event.module, .op = event.op.name()};
    auto visible = static_cast<size_t>(event.op.visible_outputs());
    for (size_t i = 0; i < visible; ++i) {
      const Tensor& output = event.outputs[i];
      if (i == 0) row.output = output.shape();
      if (!shares_storage(output, event.inputs))
        row.activation_bytes += output.numel() * size_of(output.dtype());
    }
    row.flops = event.op.flops(autograd::infos_of(event.inputs), autograd::infos_of(event.outputs));
    for (const Tensor& input : event.inputs)
      if (input.defined()) readers_.try_emplace(input.body(), event.module);
    rows.push_back(std::move(row));
  }
  /// The layer of the op that was the first to read a parameter; null where none was.
  const std::string* reader_of(const Tensor& parameter) const {
    const auto found = readers_.find(parameter.body());
    return found == readers_.end() ? nullptr : &found->second;
  }

 private:
  std::map<const TensorBody*, std::string> readers_;
};

// Parameters of the module itself, not of its children, by module path as ops report it. Those of a
// module that was not called count where an op of another reads them.
std::map<std::string, int64_t> parameters_by_layer(const Module& model,
                                                   const Collector& collector) {
  std::map<std::string, int64_t> counts;
  for (const NamedTensor& parameter : model.named_parameters()) {
    std::string path = model.name();
    size_t dot = parameter.name.rfind('.');
    if (dot != std::string::npos) path += (path.empty() ? "" : ".") + parameter.name.substr(0, dot);
    const std::string* reader = collector.reader_of(parameter.tensor);
    if (reader != nullptr && !std::ranges::count(collector.rows, path, &SummaryRow::layer))
      path = *reader;
    counts[path] += parameter.tensor.numel();
  }
  return counts;
}

struct Traced {
  std::vector<SummaryRow> rows;
  std::map<std::string, int64_t> parameters;  // by layer
};

Traced trace(Module& model, const Shape& input) {
  MetaRun run(model);
  Collector collector;
  run.forward(input);
  std::map<std::string, int64_t> parameters = parameters_by_layer(model, collector);
  return {std::move(collector.rows), std::move(parameters)};
}

int64_t bytes_of(const std::vector<NamedTensor>& tensors) {
  int64_t bytes = 0;
  for (const NamedTensor& t : tensors) bytes += t.tensor.numel() * size_of(t.tensor.dtype());
  return bytes;
}

void add_totals(Summary& summary, const Module& model) {
  for (const NamedTensor& parameter : model.named_parameters()) {
    summary.parameters += parameter.tensor.numel();
    if (parameter.tensor.requires_grad()) summary.trainable_parameters += parameter.tensor.numel();
  }
  summary.parameter_bytes = bytes_of(model.named_parameters());
  summary.buffer_bytes = bytes_of(model.named_buffers());
  for (const SummaryRow& row : summary.rows) {
    summary.flops += row.flops;
    summary.activation_bytes += row.activation_bytes;
  }
}

// 1,234,567
std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string format_flops(double flops) {
  if (flops >= 1e9) return fmt::format("{:.2f} G", flops / 1e9);
  if (flops >= 1e6) return fmt::format("{:.2f} M", flops / 1e6);
  return fmt::format("{:.2f} k", flops / 1e3);
}

}  // namespace

Summary summarize(Module& model, const Shape& input) {
  Summary summary;
  auto [rows, parameters] = trace(model, input);
  summary.rows = std::move(rows);
  for (SummaryRow& row : summary.rows) {
    auto found = parameters.find(row.layer);
    if (found == parameters.end()) continue;
    row.parameters = found->second;
    parameters.erase(found);
  }
  for (const auto& [layer, count] : parameters)
    summary.rows.push_back({.layer = layer, .op = "", .output = {}, .parameters = count});
  add_totals(summary, model);
  return summary;
}

std::string to_string(const Summary& summary) {
  size_t layer_width = 5, op_width = 2;
  for (const SummaryRow& row : summary.rows) {
    layer_width = std::max(layer_width, row.layer.size());
    op_width = std::max(op_width, row.op.size());
  }
  auto line = [&](std::string_view layer, std::string_view op, std::string_view output,
                  std::string_view parameters, std::string_view flops, std::string_view bytes) {
    return fmt::format("{:<{}}  {:<{}}  {:>18}  {:>12}  {:>10}  {:>11}\n", layer, layer_width, op,
                       op_width, output, parameters, flops, bytes);
  };
  std::string text = line("layer", "op", "output", "parameters", "FLOPs", "activations");
  for (const SummaryRow& row : summary.rows)
    text += line(row.layer, row.op.empty() ? "-" : row.op,
                 row.op.empty() ? "not run" : brim::to_string(row.output),
                 row.parameters == 0 ? "" : grouped(row.parameters), format_flops(row.flops),
                 row.activation_bytes == 0 ? "" : format_bytes(row.activation_bytes));
  text += line("total", "", "", grouped(summary.parameters), format_flops(summary.flops),
               format_bytes(summary.activation_bytes));
  text += fmt::format("{} trainable parameters; parameters {}, buffers {}\n",
                      grouped(summary.trainable_parameters), format_bytes(summary.parameter_bytes),
                      format_bytes(summary.buffer_bytes));
  return text;
}

}  // namespace brim::nn
