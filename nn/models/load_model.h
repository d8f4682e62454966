// A model from the file alone: the registry's model that the file's card names (nn/model_card.h),
// with as many classes as the file's classifier has. A file of PyTorch has no card: say which model
// it is. For a class of your own make it, and call `load_weights` (nn/weights.h).
#pragma once

#include <memory>
#include <string>

#include "brim/nn/model_card.h"
#include "brim/nn/module.h"

namespace brim::nn {

struct LoadModelOptions {
  /// A name of `make_model`, where the card has none.
  std::string model;
  Dtype dtype = Dtype::float32;
  Device device = Device::cpu();
};

struct LoadedModel {
  std::unique_ptr<Module> module;  ///< in evaluation mode
  ModelCard card;                  ///< `model` is filled in
  int64_t classes = 0;             ///< outputs of the model
  std::string prefix;              ///< of all names in the file, that was taken off (nn/weights.h)
};

/// Throws `ValueError` where nobody says which model it is, two say different things, or no model
/// is called so; what `SafetensorsFile`, `card_of` and `load_weights` throw; `FileError` where the
/// card names another number of classes than the model has. All of it before memory is taken.
LoadedModel load_model(const std::string& path, const LoadModelOptions& options = {});

}  // namespace brim::nn
