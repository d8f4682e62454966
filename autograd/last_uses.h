// For each leaf under a result, where backward comes to it for the last time: nodes run from the
// latest call to the earliest, so that is the first call that the leaf was an input of. Costs a
// walk over the whole tape; for `BackwardOptions::on_leaf_complete`, which alone needs it.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>

#include "brim/autograd/node.h"

namespace brim::autograd {

struct LastUse {
  std::shared_ptr<TensorBody> leaf;
  /// `Node::sequence` of the last node that backward runs with an edge to it.
  uint64_t sequence = std::numeric_limits<uint64_t>::max();
  int64_t uses = 1;  ///< edges that lead to it
  size_t place = 0;  ///< among those that backward comes to first
};

/// The leaves that `root` leads to and that want a gradient, in the order in which backward is done
/// with them. The same graph gives the same order. A deque: no large blocks from malloc.
std::deque<LastUse> last_uses(const Edge& root);

}  // namespace brim::autograd
