// Groups of parameters with a learning rate or weight decay of their own: a new head that learns
// faster than what was loaded below it, no decay on norms and biases. In this order: freeze what is
// not trained, make the groups, the optimizer, the `TrainStep`. Groups hold names, not tensors; a
// parameter in none of them has the optimizer's own numbers, one in two is an error.
//
//   optim::AdamW adamw(model.named_parameters(),
//                      {.groups = optim::no_decay(model, {}, {{.name = "loaded",
//                                                              .prefixes = {"layer1", "layer2"},
//                                                              .rate_factor = 0.1}})});
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brim/nn/module.h"

namespace brim::optim {

struct ParameterGroup {
  std::string name;                         ///< for messages
  std::vector<std::string> prefixes;        ///< parameters at or below them: "layer1", "fc.weight"
  double rate_factor = 1;                   ///< of the update's rate; from 0
  std::optional<double> weight_decay = {};  ///< in place of the optimizer's; from 0
};

/// What a group says about one parameter.
struct ParameterSettings {
  double rate_factor = 1, weight_decay = 0;
};

/// The settings of each parameter. Throws `ValueError` in the optimizer's name for a prefix at or
/// below which there is no parameter (with the nearest name), a group without parameters, a
/// parameter in two groups, a number out of range.
std::vector<ParameterSettings> settings_of(const char* optimizer,
                                           std::span<const nn::NamedTensor> parameters,
                                           std::span<const ParameterGroup> groups,
                                           double weight_decay);

struct NoDecayOptions {
  bool norms = true;   ///< all parameters of modules whose `kind()` has "Norm" in it
  bool biases = true;  ///< parameters whose own name ends in "bias", those of norms included
};

/// `groups`, with the norms and biases of the model split off from each of them, and from what is
/// in none, into groups without weight decay. Decay is meant to keep weights small that multiply
/// each other; a norm undoes the size of the weights before it, and a bias multiplies nothing (He
/// et al., "Bag of Tricks for Image Classification", CVPR 2019). Frozen parameters are left out.
std::vector<ParameterGroup> no_decay(const nn::Module& model, const NoDecayOptions& options = {},
                                     const std::vector<ParameterGroup>& groups = {});

}  // namespace brim::optim
