// Kernels that gather in a `BatchScope` (core/batch.h): a loop over the elements of one tensor is
// an entry of a batch, which travels as the argument of one kernel.
#pragma once

#include "brim/base/cuda/launch.cuh"
#include "brim/base/gathered.h"
#include "brim/core/launch.h"

namespace brim::cuda {

// Of CUDA's 32,764 bytes of arguments. The emulator copies them for each thread.
#ifdef BRIM_CUDA_EMULATOR
inline constexpr size_t kBatchBytes = 2048;
#else
inline constexpr size_t kBatchBytes = 32000;
#endif
inline constexpr int kBatchThreads = 256;
inline constexpr int64_t kElementsOfBlock = 8 * kBatchThreads;

/// Loops of one kind. `Body` has a type `Common`, `Common common() const`, what all its elements
/// want, computed once a block, and `void operator()(int64_t element, const Common&) const`.
template <class Body>
struct Batch {
  struct Entry {
    Body body;
    int64_t elements, first_block;
  };
  static constexpr int kMost = static_cast<int>(kBatchBytes / sizeof(Entry));

  int count = 0;
  Entry entries[kMost];

  /// Of a block of the grid.
  __device__ const Entry& entry_of(int64_t block) const {
    int low = 0,
        high = count;  // entries[low] begins at or before the block, entries[high] behind it
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (entries[middle].first_block <= block ? low : high) = middle;
    }
    return entries[low];
  }
};

template <class Body>
__global__ void batch_kernel(const __grid_constant__ Batch<Body> batch) {
  const auto& entry = batch.entry_of(blockIdx.x);
  auto* common = shared_memory<typename Body::Common>();
  if (threadIdx.x == 0) *common = entry.body.common();
  __syncthreads();
  const int64_t begin = (int64_t{blockIdx.x} - entry.first_block) * kElementsOfBlock;
  for (int64_t k = threadIdx.x; k < kElementsOfBlock; k += kBatchThreads)
    if (begin + k < entry.elements) entry.body(begin + k, *common);
}

template <class Body>
class GatheredBatch final : public Gathered {
 public:
  static GatheredBatch& of_this_thread() {
    static thread_local GatheredBatch batch;
    return batch;
  }

  void add(void* stream, const char* kernel, const Body& body, int64_t elements) {
    gather_in(this);
    if (batch_.count == Batch<Body>::kMost || (batch_.count > 0 && stream != stream_)) start();
    stream_ = stream;
    kernel_ = kernel;
    batch_.entries[batch_.count++] = {body, elements, blocks_};
    blocks_ += (elements + kElementsOfBlock - 1) / kElementsOfBlock;
  }

  void start() override {
    if (batch_.count == 0) return;
    const Grid grid{grid_size(kernel_, blocks_), kBatchThreads, sizeof(typename Body::Common)};
    const struct Emptied {
      GatheredBatch& batch;
      ~Emptied() { batch.batch_.count = 0, batch.blocks_ = 0; }
    } emptied{*this};  // also where it cannot be started
    launch_kernel(kernel_, batch_kernel<Body>, grid, stream_, batch_);
    note_batch_started();
  }

 private:
  Batch<Body> batch_{};
  int64_t blocks_ = 0;
  void* stream_ = nullptr;
  const char* kernel_ = "";
};

/// `body(element, common)` for all elements, gathered where there is a scope.
template <class Body>
void for_each_element_of_batch(const KernelCall& call, int64_t elements, const Body& body,
                               const char* kernel) {
  if (elements == 0) return;
  auto& batch = GatheredBatch<Body>::of_this_thread();
  batch.add(call.stream, kernel, body, elements);
  if (gathering_depth() == 0) start_gathered();
}

}  // namespace brim::cuda
