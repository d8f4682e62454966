// Models that are smaller than their constructors make them, as pruned ones are (shrink/prune.h):
// in what, so that a file can say so (nn/model_card.h), and the same model made so again. Layers
// take their sizes from their tensors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "brim/base/device.h"
#include "brim/core/shape.h"

namespace brim::nn {

class Module;

/// Of parameters and buffers, by dotted name.
using TensorShapes = std::map<std::string, Shape>;

/// Those of all tensors of a model.
TensorShapes tensor_shapes(const Module& module);

/// What a model has otherwise than its constructor made it.
struct ModelSizes {
  TensorShapes shapes;                ///< of tensors that have another one
  std::vector<std::string> bypassed;  ///< modules (`Module::bypass`)

  bool empty() const { return shapes.empty() && bypassed.empty(); }
  bool operator==(const ModelSizes&) const = default;
};

/// Of `module`, where `made` is the same model as it was made. Tensors that `made` lacks are left
/// out.
ModelSizes sizes_beside(const Module& module, const Module& made);

/// Bypasses modules, and replaces parameters and buffers by ones of these shapes, which have no
/// values yet. Throws `ValueError` for a name that the model does not have, with the nearest,
/// for another number of axes or a size below 1, and for a module to bypass twice; nothing has
/// changed then.
void resize(Module& module, const ModelSizes& sizes);

/// Replaces the parameters and buffers of a model that is on the meta device by tensors on `device`
/// that have no values yet.
void materialize(Module& module, Device device);

}  // namespace brim::nn
