// Images as rows in PyTorch's order: [N,H,W,C] -> [N,C*H*W], channel by channel. For models whose
// first linear layer sees single pixels, so that a file's weight of it needs no other order than
// it has. Copies, which nn/flatten.h does not: use that where no weights come from elsewhere.
#pragma once

#include "brim/ops/permute.h"
#include "brim/ops/reshape.h"

namespace brim::nn {

inline Tensor flatten_channels_first(Tensor x, Where where = Where::current()) {
  Shape rows{x.size(0), x.size(1) * x.size(2) * x.size(3)};  // no -1: the batch may be empty
  return reshape(permute(std::move(x), {0, 3, 1, 2}, where), rows, where);
}

}  // namespace brim::nn
