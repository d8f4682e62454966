#include "brim/optim/parameter_groups.h"

#include <algorithm>
#include <limits>

#include "brim/base/nearest.h"
#include "brim/optim/optimizer.h"

namespace brim::optim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Names = std::vector<std::string>;

bool has(const ParameterGroup& group, const std::string& parameter) {
  return std::ranges::any_of(group.prefixes, [&](const std::string& prefix) {
    return nn::is_at_or_below(parameter, prefix);
  });
}

bool is_known(const std::string& prefix, const Names& parameters) {
  return std::ranges::any_of(parameters, [&](const std::string& parameter) {
    return nn::is_at_or_below(parameter, prefix);
  });
}

/// Those in the group, and the others.
std::pair<Names, Names> split(const Names& parameters, const ParameterGroup& group) {
  std::pair<Names, Names> parts;
  for (const std::string& parameter : parameters)
    (has(group, parameter) ? parts.first : parts.second).push_back(parameter);
  return parts;
}

/// The parameters' names and those of the modules above them.
Names with_modules(const Names& parameters) {
  Names known;
  for (const std::string& name : parameters) {
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      known.push_back(name.substr(0, dot));
    known.push_back(name);
  }
  return known;
}

void require_valid(const char* optimizer, const ParameterGroup& group, const Names& parameters) {
  require_in_range(optimizer, "rate factor", group.rate_factor, 0, kInfinity);
  require_in_range(optimizer, "weight decay", group.weight_decay.value_or(0), 0, kInfinity);
  expect<ValueError>(!group.prefixes.empty(), optimizer, "the group '{}' has no parameters",
                     group.name);
  for (const std::string& prefix : group.prefixes)
    if (!is_known(prefix, parameters))
      raise<ValueError>(optimizer,
                        "the group '{}' has no parameters that are trained at or below '{}'{}",
                        group.name, prefix, did_you_mean(prefix, with_modules(parameters)));
}

bool is_exempt(const nn::Module::Slot& slot, const NoDecayOptions& options) {
  return (options.norms && slot.owner->kind().find("Norm") != std::string_view::npos) ||
         (options.biases && slot.name.ends_with("bias"));
}

}  // namespace

std::vector<ParameterSettings> settings_of(const char* optimizer,
                                           std::span<const nn::NamedTensor> parameters,
                                           std::span<const ParameterGroup> groups,
                                           double weight_decay) {
  Names names;
  for (const nn::NamedTensor& parameter : parameters) names.push_back(parameter.name);
  for (const ParameterGroup& group : groups) require_valid(optimizer, group, names);
  std::vector<ParameterSettings> settings;
  for (const nn::NamedTensor& parameter : parameters) {
    const ParameterGroup* own = nullptr;
    for (const ParameterGroup& group : groups) {
      if (!has(group, parameter.name)) continue;
      expect<ValueError>(own == nullptr, optimizer, "'{}' is in two groups, '{}' and '{}'",
                         parameter.name, own != nullptr ? own->name : "", group.name);
      own = &group;
    }
    settings.push_back(
        own == nullptr
            ? ParameterSettings{1, weight_decay}
            : ParameterSettings{own->rate_factor, own->weight_decay.value_or(weight_decay)});
  }
  return settings;
}

std::vector<ParameterGroup> no_decay(const nn::Module& model, const NoDecayOptions& options,
                                     const std::vector<ParameterGroup>& groups) {
  Names exempt, decaying;
  model.for_each_slot([&](const std::string& name, const nn::Module::Slot& slot) {
    if (slot.is_parameter && slot.tensor->requires_grad())
      (is_exempt(slot, options) ? exempt : decaying).push_back(name);
  });
  std::vector<ParameterGroup> result;
  Names rest = exempt;
  for (const ParameterGroup& group : groups) {
    Names ours = split(exempt, group).first;
    rest = split(rest, group).second;
    if (ours.empty()) {
      result.push_back(group);
      continue;
    }
    ParameterGroup with = group, without = group;
    with.prefixes = split(decaying, group).first;
    for (const std::string& prefix : group.prefixes)  // left for the optimizer to refuse
      if (!is_known(prefix, exempt) && !is_known(prefix, decaying)) with.prefixes.push_back(prefix);
    without.name += ", no decay";
    without.weight_decay = 0;
    without.prefixes = std::move(ours);
    if (!with.prefixes.empty()) result.push_back(std::move(with));
    result.push_back(std::move(without));
  }
  if (!rest.empty())
    result.push_back({.name = "no decay", .prefixes = std::move(rest), .weight_decay = 0});
  return result;
}

}  // namespace brim::optim
