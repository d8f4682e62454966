// What a model computes, layer by layer: shapes, parameters, FLOPs and bytes, found by running it
// once on the meta device, where no byte is touched. The model may be anywhere, but nobody else may
// use it meanwhile. Forward alone, in the mode that the model is in. Bytes of activations are those
// of all results added up, not a peak: for what a training step holds, use train/step_memory.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "brim/nn/module.h"

namespace brim::nn {

/// One op of the forward pass.
struct SummaryRow {
  std::string layer;  ///< module path; "" for ops of the model's own forward
  std::string op;     ///< "" for a layer with parameters that did not run
  Shape output;
  int64_t parameters = 0;        ///< the layer's own, at its first op
  double flops = 0;              ///< a multiplication and an addition are two
  int64_t activation_bytes = 0;  ///< of its result; 0 for a view
};

struct Summary {
  std::vector<SummaryRow> rows;
  int64_t parameters = 0, trainable_parameters = 0;
  int64_t parameter_bytes = 0, buffer_bytes = 0;
  double flops = 0;
  int64_t activation_bytes = 0;
};

/// `input` is the shape of the model's input, [N,H,W,C]; its dtype is that of the parameters, and
/// where some are halves, float32 in mixed precision.
/// Throws what the forward pass throws about shapes; the model is as before in any case.
Summary summarize(Module& model, const Shape& input);

/// A table for people.
std::string to_string(const Summary& summary);

}  // namespace brim::nn
