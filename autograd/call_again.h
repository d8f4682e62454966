// Another handle to what a recorded call made, for code that shares one result among several ops
// and would rather not hold it in between (ops/autocast.cc).
#pragma once

#include <memory>

#include "brim/autograd/node.h"

namespace brim::autograd {

/// The only output of `node`, as the tape knows it: gradients of both handles add up there. Where
/// nobody held it, it is made again of `inputs`, those of the call, which is not recorded a second
/// time.
Tensor result_again(const std::shared_ptr<Node>& node, const Tensors& inputs);

}  // namespace brim::autograd
