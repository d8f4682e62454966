// Branches side by side: `concat` along the channels, which takes each branch from its caller by
// itself. A braced list, `concat({a, b}, -1)`, would copy the handles, and their bytes would stay
// until the end of the statement. Make the branches before the call: arguments have no order.
#pragma once

#include "brim/ops/concat.h"

namespace brim::nn {

template <class... Branches>
Tensor concat_channels(Where where, Branches... branches) {
  std::vector<Tensor> list;
  list.reserve(sizeof...(branches));
  (list.push_back(std::move(branches)), ...);
  return concat(std::move(list), -1, where);
}

}  // namespace brim::nn
