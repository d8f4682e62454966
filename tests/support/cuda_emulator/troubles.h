// What an emulated GPU can be told to do, for tests of who relies on it: to work late, as real ones
// do, to fail, to have a driver of another age, to lend memory to others. All of it is of the whole
// process, and not to be changed while another thread uses the GPU.
#pragma once

#include <cstddef>

namespace brim::cuda::emulator {

/// What the streams do that nobody waits for, when one is waited for: nothing, or before it all
/// that they can, the newest stream first. Which wait of a stream for another is missing shows in
/// one of the two: with `stay` the other comes too late, with `run_ahead` the stream itself too
/// early.
enum class OtherStreams { stay, run_ahead };

/// What is enqueued is done when somebody waits, and not before, until the scope ends: kernels and
/// copies from and to pinned memory. Each stream has its own queue, of which the host waits for
/// one, for a part of one by an event, or for all; on the way a wait for another stream's event has
/// that stream come to where it was recorded. Other copies of the host's memory read at once, and
/// wait for their stream before they write. A kernel that throws is an illegal address, which the
/// call that waits returns, and every call after it.
class LateScope {
 public:
  explicit LateScope(OtherStreams others = OtherStreams::stay);
  ~LateScope();
  LateScope(const LateScope&) = delete;
  LateScope& operator=(const LateScope&) = delete;
};

/// Pieces of work that are enqueued and not done.
size_t work_left();

/// Bytes of pinned memory that the program holds.
size_t pinned_bytes();
/// The nth call for pinned memory from now fails with this error; 0: none does.
void fail_pinned(int nth, int error);

/// Bytes of the GPU that others hold, once the program has asked so often what is free.
void set_others(size_t bytes, int after = 0);
/// The GPU has no room for a context.
void refuse_context(bool on);
/// The driver's CUDA, 1000 times the major number and 10 times the minor; before 13.0 it is too
/// old.
void set_driver(int version);

}  // namespace brim::cuda::emulator
