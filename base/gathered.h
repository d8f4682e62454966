// Loops over the elements of many small tensors as one: an optimizer's update of all its
// parameters. To start a loop by itself, on a GPU or by several threads, takes longer than most
// parameters do. Kernels that gather keep a list of what they were called for (optim/cpu/
// gathered_loop.h, core/cuda/batch.cuh); here is when they do so, and who comes first.
#pragma once

#include <cstdint>

namespace brim {

/// A list of loops of one kind, not yet started.
class Gathered {
 public:
  virtual ~Gathered() = default;
  /// Starts them, and is empty then, also where it throws.
  virtual void start() = 0;
};

/// Between these kernels of this thread that gather do so; the end of any starts what they have.
/// See `BatchScope` (core/batch.h).
void begin_gathering();
void end_gathering();
/// How many that began have not ended: 0, and kernels do not gather.
int gathering_depth();

/// Starts what this thread gathered before in any other list than `next`: they run in the order of
/// their launches, whatever their kinds.
void gather_in(Gathered* next);
/// Starts what this thread has gathered, for who looks at each launch by itself.
void start_gathered();

/// Kernels and parallel loops for what was gathered, even if it was one thing alone, that this
/// thread started so far. Who starts one notes it.
int64_t batches_started();
void note_batch_started();

}  // namespace brim
