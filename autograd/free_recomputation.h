// Recomputation that costs next to nothing: results of elementwise ops and of batch norm that up to
// three such calls make again, of at most three tensors which are kept anyway, are not kept. Of
// `relu(bn(conv(x)))` the convolution's output stays, which batch norm needs, and what the next
// convolution will need for its weight's gradient is made from it then; of blocks with a residual
// sum every third result stays. What a convolution would read by rows that does next to nothing
// itself, such as a depthwise one, is kept.
#pragma once

#include "brim/autograd/save_policy.h"

namespace brim::autograd {

class FreeRecomputation final : public SavePolicy {
 public:
  Decision decide(const RecordedCall& call) override;
  bool keeps_for(const Node& reader, int i) override;
};

}  // namespace brim::autograd
