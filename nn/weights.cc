#include "brim/nn/weights.h"

#include <algorithm>
#include <map>
#include <set>

#include "brim/base/nearest.h"
#include "brim/core/non_finite.h"
#include "brim/memory/staging_scope.h"
#include "brim/nn/batch_norm2d.h"
#include "brim/nn/linear.h"

namespace brim::nn {
namespace {

using io::SafetensorsFile;

constexpr const char* kTag = "weights";
constexpr size_t kNamesShown = 3;
constexpr size_t kNamesCompared = 5000;  // of a file that may have many

using ByName = std::map<std::string, Tensor, std::less<>>;

/// All that a file of this module holds but the counters, in the file's layout.
ByName tensors_of(const Module& module) {
  ByName tensors;
  module.for_each_slot([&](const std::string& name, const Module::Slot& slot) {
    tensors.emplace(name, in_file_layout(*slot.tensor));
  });
  return tensors;
}

std::string below(const std::string& module, const char* name) {
  return module.empty() ? name : module + "." + name;
}

std::set<std::string> counters_of(Module& module) {
  std::set<std::string> names;
  for (const NamedModule& part : module.named_modules())
    if (dynamic_cast<const BatchNorm2d*>(&part.module) != nullptr)
      names.insert(below(part.name, "num_batches_tracked"));
  return names;
}

/// "'fc.weight' (nearest: 'head.weight'), 'fc.bias' and 3 more".
std::string listed(const std::vector<std::string>& names, const std::vector<std::string>& others) {
  auto compared = std::span(others).first(std::min(others.size(), kNamesCompared));
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamesShown); ++i) {
    std::string nearest = nearest_name(names[i], compared);
    text += fmt::format("{}'{}'", i > 0 ? ", " : "", names[i]);
    if (!nearest.empty()) text += fmt::format(" (nearest: '{}')", nearest);
  }
  if (names.size() > kNamesShown) text += fmt::format(" and {} more", names.size() - kNamesShown);
  return text;
}

/// The nearest names are looked for among those that only the other side has.
void require_all(const LoadReport& report, const std::string& path) {
  const auto& [missing, unexpected, skipped, prefix] = report;
  if (missing.empty() && unexpected.empty()) return;
  std::string text;
  if (!missing.empty()) text = "the file has no " + listed(missing, unexpected);
  if (!missing.empty() && !unexpected.empty()) text += "; ";
  if (!unexpected.empty()) text += "the model has no " + listed(unexpected, missing);
  raise<FileError>(kTag, "'{}' is not of this model: {}", path, text);
}

/// What is to be read, and the names that only one side has.
struct Match {
  ByName tensors;
  LoadReport report;
};

std::vector<std::string> skipped_parts(Module& module) {
  std::vector<std::string> names;
  for (const NamedModule& part : module.named_modules())
    for (const std::string& name : part.module.skipped_in_files())
      names.push_back(below(part.name, name.c_str()));
  return names;
}

/// "module.layer1." of "module.layer1.0.weight" and "module.layer1.1.weight".
std::string_view shared_parts(const SafetensorsFile& file) {
  if (file.tensors().empty()) return "";
  // They are sorted: what the first and the last share, all do.
  std::string_view first = file.tensors().front().name, last = file.tensors().back().name;
  const auto differs = std::ranges::mismatch(first, last).in1;
  const auto shared = first.substr(0, static_cast<size_t>(differs - first.begin()));
  return shared.substr(0, shared.rfind('.') + 1);
}

Match match(Module& module, const SafetensorsFile& file, const LoadOptions& options) {
  Match match{tensors_of(module), {}};
  const std::string prefix = match.report.prefix = name_prefix(module, file);
  std::set<std::string> ignored = counters_of(module);
  if (options.new_head) {
    std::string head = classifier_head(module);
    std::erase_if(match.tensors, [&](const auto& entry) {
      bool of_head = is_at_or_below(entry.first, head);
      if (of_head) ignored.insert(entry.first);
      return of_head;
    });
  }
  std::vector<std::string> skipped = skipped_parts(module);
  for (const io::TensorInfo& tensor : file.tensors()) {
    const std::string name = tensor.name.substr(prefix.size());
    if (match.tensors.contains(name) || ignored.contains(name)) continue;
    bool skip = std::ranges::any_of(
        skipped, [&](const std::string& part) { return is_at_or_below(name, part); });
    (skip ? match.report.skipped : match.report.unexpected).push_back(name);
  }
  std::erase_if(match.tensors, [&](const auto& entry) {
    bool missing = file.find(prefix + entry.first) == nullptr;
    if (missing) match.report.missing.push_back(entry.first);
    return missing;
  });
  if (options.strict) require_all(match.report, file.path());
  return match;
}

/// Shapes and dtypes; a classifier of other classes is the most likely reason for another shape.
void check_tensors(const Match& match, const SafetensorsFile& file, const std::string& head) {
  for (const auto& [name, tensor] : match.tensors) {
    const io::TensorInfo& info = file.info(match.report.prefix + name);
    bool of_head = !head.empty() && is_at_or_below(name, head);
    expect<FileError>(info.shape == tensor.shape(), kTag,
                      "'{}': tensor '{}' is {}, but {} in the model{}", file.path(), name,
                      info.shape, tensor.shape(),
                      of_head ? "; for other classes ask for a new head" : "");
    expect<FileError>(is_floating(info.dtype) == is_floating(tensor.dtype()), kTag,
                      "'{}': tensor '{}' is of {}, but of {} in the model", file.path(), name,
                      info.dtype, tensor.dtype());
  }
}

/// The last `Linear`, or "".
std::string last_linear(Module& module) {
  std::string last;
  for (const NamedModule& part : module.named_modules())
    if (dynamic_cast<const Linear*>(&part.module) != nullptr) last = part.name;
  return last;
}

// Its tensors have the names of others.
void refuse_folded(const Module& module) {
  expect<ValueError>(!module.is_folded(), "weights",
                     "the batch norms of this model are folded, and its weights no longer those of "
                     "files: save and load before nn::fold_batch_norms");
}

Match checked_match(Module& module, const SafetensorsFile& file, const LoadOptions& options) {
  refuse_folded(module);
  Match found = match(module, file, options);
  check_tensors(found, file, last_linear(module));
  return found;
}

}  // namespace

// [N,H,W,C] as [N,C,H,W].
Tensor in_file_layout(const Tensor& tensor) {
  if (tensor.dim() != 4) return tensor;
  Layout layout = tensor.layout();
  const Shape& n = tensor.shape();
  const Strides& s = tensor.strides();
  layout.shape = {n[0], n[3], n[1], n[2]};
  layout.strides = {s[0], s[3], s[1], s[2]};
  return Tensor(tensor.storage(), layout);
}

std::string name_prefix(const Module& module, const SafetensorsFile& file) {
  const ByName tensors = tensors_of(module);
  const std::string_view shared = shared_parts(file);
  auto has_one_without = [&](size_t prefix) {
    return std::ranges::any_of(file.tensors(), [&](const io::TensorInfo& tensor) {
      return tensors.contains(std::string_view(tensor.name).substr(prefix));
    });
  };
  if (has_one_without(0)) return "";
  for (size_t dot = shared.find('.'); dot != shared.npos; dot = shared.find('.', dot + 1))
    if (has_one_without(dot + 1)) return std::string(shared.substr(0, dot + 1));
  return "";
}

std::string classifier_head(Module& module) {
  std::string head = last_linear(module);
  expect<ValueError>(!head.empty(), kTag, "the model has no Linear layer that could be its head");
  return head;
}

void save_weights(Module& module, const std::string& path, const ModelCard& card) {
  refuse_folded(module);
  module.require_values();
  memory::StagingScope staging;
  std::vector<io::NamedBytes> entries;
  for (const auto& [name, tensor] : tensors_of(module)) entries.push_back({name, tensor});
  for (const std::string& name : counters_of(module))
    entries.push_back({name, zeros({}, {.dtype = Dtype::int64})});
  io::write_safetensors(path, entries, to_metadata(card));
}

LoadReport check_weights(Module& module, const SafetensorsFile& file, const LoadOptions& options) {
  return checked_match(module, file, options).report;
}

LoadReport load_weights(Module& module, const SafetensorsFile& file, const LoadOptions& options) {
  Match found = checked_match(module, file, options);
  memory::StagingScope staging;
  for (const auto& [name, tensor] : found.tensors) {
    file.read_into(found.report.prefix + name, tensor);
    expect<FileError>(!has_non_finite(tensor), kTag,
                      "'{}': tensor '{}' has values that are not finite (NaN or infinity)",
                      file.path(), found.report.prefix + name);
  }
  return std::move(found.report);
}

LoadReport load_weights(Module& module, const std::string& path, const LoadOptions& options) {
  return load_weights(module, SafetensorsFile(path), options);
}

}  // namespace brim::nn
