// Which op this thread enqueued last on a GPU. What goes wrong while a kernel runs is found by a
// later call that waits, and that knows nothing of the kernel: its error (error.h) names this op at
// least. `launch` (core/launch.h) notes it, for the price of two pointers.
#pragma once

#include <string>

namespace brim::cuda {

struct LastOp {
  const char* name = nullptr;           ///< "conv2d"; null before the first. Lives for ever
  const std::string* module = nullptr;  ///< "layer1.0.conv1", kept for ever; null for none
};

inline thread_local LastOp last_op;

}  // namespace brim::cuda
