// One kernel for the elements of many tensors: an optimizer's update of all its parameters. To
// start a kernel takes some microseconds, more than most parameters take themselves. Which kernels
// gather is theirs to say (batch.cuh); all others run as ever, and nothing here needs a GPU.
#pragma once

#include <cstdint>

namespace brim::cuda {

/// Kernels of this thread that gather do so until the scope ends, which starts them; in the order
/// in which they were launched, whatever their kinds. What they read and write must stay until
/// then. Scopes nest: the outermost counts. Outside of one nothing is gathered.
class BatchScope {
 public:
  BatchScope();
  ~BatchScope();
  BatchScope(const BatchScope&) = delete;
  BatchScope& operator=(const BatchScope&) = delete;
};

/// Starts what this thread has gathered, for who looks at each launch by itself.
void start_gathered();

/// Kernels with gathered work that this thread started so far.
int64_t batches_started();

}  // namespace brim::cuda
