// The models that pruning is tested on: all bundled ones, on small images.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "brim/nn/models/registry.h"
#include "brim/nn/models/unet.h"
#include "brim/tests/support/instrumented.h"

namespace brim::testing {

inline Shape zoo_input(const std::string& name, int64_t batch) {
  const int64_t side = name == "inception_v3" ? 96 : name == "resnet20" || name == "unet" ? 32 : 64;
  return {batch, side, side, 3};
}

/// Under instrumentation two, which have between them all that is grouped in a way of its own.
inline std::vector<std::string> zoo() {
  if (is_instrumented()) return {"mobilenet_v3_small", "resnet20"};
  std::vector<std::string> names = nn::model_names();
  names.emplace_back("unet");
  return names;
}

inline std::unique_ptr<nn::Module> make_zoo_model(const std::string& name,
                                                  const nn::ModelOptions& options) {
  if (name != "unet") return nn::make_model(name, options);
  nn::CreationScope creation({.dtype = options.dtype, .device = options.device});
  auto unet = std::make_unique<nn::UNet>(nn::UNetOptions{.channels = 8, .depth = 2});
  nn::initialize(*unet, 1);
  return unet;
}

}  // namespace brim::testing
