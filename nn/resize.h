// Models whose tensors have other sizes than their constructors gave them, as pruned ones have
// (shrink/prune.h): which those are, so that a file can say so (nn/model_card.h), and the same
// model made so again. Layers take their sizes from their tensors.
#pragma once

#include <map>
#include <string>

#include "brim/base/device.h"
#include "brim/core/shape.h"

namespace brim::nn {

class Module;

/// Of parameters and buffers, by dotted name.
using TensorShapes = std::map<std::string, Shape>;

/// Of the tensors of `module` that have another shape in `made`. Those that `made` lacks are left
/// out.
TensorShapes shapes_beside(const Module& module, const Module& made);

/// Replaces parameters and buffers by ones of these shapes, which have no values yet. Throws
/// `ValueError` for a name that the model does not have, with the nearest, and for another number
/// of axes or a size below 1; nothing has changed then.
void resize(Module& module, const TensorShapes& shapes);

/// Replaces the parameters and buffers of a model that is on the meta device by tensors on `device`
/// that have no values yet.
void materialize(Module& module, Device device);

}  // namespace brim::nn
