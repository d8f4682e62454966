// Recomputation that costs next to nothing: results of elementwise ops and of batch norm that one
// pass over tensors which are kept anyway makes again are never kept. Of `relu(bn(conv(x)))` the
// convolution's output stays, which batch norm needs, and what the next convolution will need for
// its weight's gradient is made from it then.
#pragma once

#include "brim/autograd/save_policy.h"

namespace brim::autograd {

class FreeRecomputation final : public SavePolicy {
 public:
  Decision decide(const RecordedCall& call) override;
};

}  // namespace brim::autograd
