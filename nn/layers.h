// All layers and `Sequential`, for code that defines a model. Their parameters have no values until
// `nn::initialize` is called on the root (nn/init.h). Layers without parameters are there for a
// `Sequential`: a `forward` of your own can call the functions (ops/ops.h). Finished models:
// nn/models/registry.h. A single layer: its own header.
#pragma once

#include "brim/nn/activations.h"
#include "brim/nn/adaptive_avg_pool2d.h"
#include "brim/nn/avg_pool2d.h"
#include "brim/nn/batch_norm2d.h"
#include "brim/nn/conv2d.h"
#include "brim/nn/conv_transpose2d.h"
#include "brim/nn/dropout.h"
#include "brim/nn/embedding.h"
#include "brim/nn/flatten.h"
#include "brim/nn/global_avg_pool.h"
#include "brim/nn/group_norm.h"
#include "brim/nn/identity.h"
#include "brim/nn/layer_norm.h"
#include "brim/nn/linear.h"
#include "brim/nn/max_pool2d.h"
#include "brim/nn/sequential.h"
#include "brim/nn/upsample.h"
