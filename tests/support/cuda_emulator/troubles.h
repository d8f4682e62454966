// What an emulated GPU can be told to do, for tests of who relies on it: to work late, as real ones
// do, to fail, to have a driver of another age, to lend memory to others. All of it is of the whole
// process, and not to be changed while another thread uses the GPU.
#pragma once

#include <cstddef>

namespace brim::cuda::emulator {

/// What is enqueued is done when somebody waits, and not before, until the scope ends: kernels and
/// copies from and to pinned memory, all streams in the order of the calls. Other copies of the
/// host's memory read at once, and wait before they write. A kernel that throws is an illegal
/// address, which the call that waits returns, and every call after it.
class LateScope {
 public:
  LateScope();
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
