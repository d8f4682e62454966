// Runs a CUDA kernel's source on the host: blocks one after the other, the threads of a block as
// fibers of one host thread. A fiber runs until it ends or waits, at a barrier or for the other
// lanes of its warp; then the next one runs. Whoever steps out of the model gets a `DeviceError`
// that names the kernel and the thread: a barrier that not all threads reach, a warp operation for
// which a lane of its mask is missing, more threads or shared memory than a GPU has.
//
// What it shows: wrong indices (each block's shared memory and each allocation is as large as was
// asked for: AddressSanitizer sees all that lies beyond, other builds what was written right behind
// an allocation), numbers that depend on the order in which
// threads run between barriers (`set_thread_order`), shared memory that is read before it is
// written (it begins as NaN), packs (core/cuda/vector.cuh) that are not aligned. What it does not:
// how the memory of one block looks from another while both run, the alignment of other vector
// loads, times, calls of NVIDIA's libraries, work of two streams at the same time (troubles.h only
// has one of them ahead of the other).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace brim::cuda::emulator {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
struct Size {
  constexpr Size(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  unsigned x, y, z;
};

/// The order in which the threads of a block run from one barrier to the next. Results must not
/// depend on it.
enum class ThreadOrder { forward, backward, shuffled };
void set_thread_order(ThreadOrder order);

/// Runs `body` once for each thread of `blocks` times `threads`, each block with so much shared
/// memory. Rethrows what `body` throws.
void run(const char* kernel, const Size& blocks, const Size& threads, size_t shared_bytes,
         const std::function<void()>& body);

/// Does `work` on a stream of the GPU (a cudaStream_t), or has it recorded, where this thread
/// records (cudaStreamBeginCapture).
void enqueue(void* stream, std::function<void()> work);

/// Throws `DeviceError` where something was written behind an allocation of the device. `run` calls
/// it when a kernel is done.
void check_guards(const char* kernel);

// What follows is for the thread that is running.

struct Place {
  Index thread, block;
  Size threads, blocks;
};
const Place& place();
void* shared_memory();

/// Waits until all threads of the block are here.
void barrier();

/// What the lanes of a warp do together.
enum class WarpOp { sync, shuffle, ballot };
/// Waits until all lanes of `mask` are here. `sync`: 0; `ballot`: the lanes of the mask whose
/// `value` is not 0; `shuffle`: the value of lane `from`, which must be in the mask.
uint64_t with_warp(WarpOp op, unsigned mask, uint64_t value, int from = 0);

}  // namespace brim::cuda::emulator
