// `checkpoint` (autograd/checkpoint.h) for a chain of modules, cut into segments of as equal length
// as its modules allow. As in PyTorch the last segment keeps what it makes, since backward begins
// there. For a whole model of any shape use a policy (train/recompute_options.h).
#pragma once

#include "brim/nn/sequential.h"

namespace brim::nn {

/// modules(x), of which only the inputs of the segments and what the last one saves are kept. The
/// same bits. Throws `ValueError` unless there are 1 to `modules.size()` segments.
Tensor checkpoint_sequential(Sequential& modules, int64_t segments, Tensor x,
                             Where where = Where::current());

}  // namespace brim::nn
