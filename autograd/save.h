// What the tape keeps of a call that is being recorded: the saved tensors of a node, and, where the
// policy drops some of its results, what is needed to run it again. Here the policy is asked, once
// for each call. For `apply`, and for who records a call without one (train/measured_ops.h); what
// becomes of the values after is in saved_tensor.h.
#pragma once

#include <memory>

#include "brim/autograd/node.h"

namespace brim::autograd {

/// `node` has its op, and room for its values. The input `overwritten` holds the first output by
/// now; -1 for none.
void save(const std::shared_ptr<Node>& node, const Tensors& inputs, const Tensors& outputs,
          const Saves& saves, int overwritten);

}  // namespace brim::autograd
