// Models by name, for programs whose user chooses one. Names are torchvision's where it has the
// model. They come initialised, unless asked otherwise, and in training mode; there are no
// pretrained weights. All give [N,classes] for images [N,H,W,3]. For what `ModelOptions` does not
// have (MobileNet V2's width, a deeper ResNet for CIFAR, Inception's auxiliary classifier, a layout
// of your own), and for a class of every pixel (unet.h), make the class itself, in nn/models/, with
// nn/creation.h for device and dtype.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brim/nn/creation.h"
#include "brim/nn/module.h"
#include "brim/nn/resize.h"

namespace brim::nn {

struct ModelOptions {
  int64_t classes = 1000;
  /// Of the initial values. Without one there are none, for a model that is loaded from a file.
  std::optional<uint64_t> seed = 0;
  Dtype dtype = creation_options().dtype;     ///< float32, unless a scope says otherwise
  Device device = creation_options().device;  ///< the CPU, unless a scope says otherwise
  std::optional<double> dropout = {};         ///< instead of the model's own, where it has one
  bool zero_init_residual = false;            ///< of ResNets: residual branches start at 0
  ModelSizes sizes = {};                      ///< of what is not as usual: a pruned model's
};

/// Throws `ValueError` for a name that is not known, with the nearest one, for classes < 1, and
/// what `resize` throws for shapes (nn/resize.h).
std::unique_ptr<Module> make_model(const std::string& name, const ModelOptions& options = {});

/// In the order of families and sizes.
const std::vector<std::string>& model_names();

}  // namespace brim::nn
