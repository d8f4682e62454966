// Walks several strided buffers of one shape in step on a GPU, one thread an element: what
// `StridedLoop` is on the CPU, which also merges the axes for it. Contiguous buffers cost no
// division. For elementwise kernels; sums and products want loops of their own.
#pragma once

#include <algorithm>

#include "brim/base/cuda/launch.cuh"
#include "brim/core/launch.h"
#include "brim/core/strided_loop.h"

namespace brim::cuda {

inline constexpr int kThreads = 256;
// Enough to fill any GPU; beyond that a thread does several elements.
inline constexpr int64_t kMaxBlocks = 1 << 16;

inline unsigned blocks_for(int64_t count) {
  return static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kMaxBlocks));
}

/// Element offsets, one for each of N buffers.
template <int N>
struct Offsets {
  int64_t of[N];
};

/// The merged axes of a `StridedLoop`, as a kernel's argument.
template <int N>
struct DeviceLoop {
  int rank;
  int64_t count, sizes[Dims::kMax], steps[Dims::kMax][N];

  explicit DeviceLoop(const StridedLoop<N>& loop) : rank(loop.rank()), count(loop.count()) {
    for (int axis = 0; axis < rank; ++axis) {
      sizes[axis] = loop.size(axis);
      for (int k = 0; k < N; ++k) steps[axis][k] = loop.steps(axis)[static_cast<size_t>(k)];
    }
  }

  __device__ Offsets<N> at(int64_t element) const {
    Offsets<N> offsets{};
    for (int axis = rank - 1; axis >= 0; --axis) {
      int64_t index = element;
      if (axis > 0) {
        index = element % sizes[axis];
        element /= sizes[axis];
      }
      for (int k = 0; k < N; ++k) offsets.of[k] += index * steps[axis][k];
    }
    return offsets;
  }
};

/// Do all buffers go through one axis in steps of one element?
template <int N>
bool is_contiguous(const StridedLoop<N>& loop) {
  return loop.rank() == 1 &&
         (loop.size(0) == 1 || std::ranges::all_of(loop.steps(0), [](auto s) { return s == 1; }));
}

template <int N, class Body>
__global__ void strided_kernel(DeviceLoop<N> loop, Body body) {
  int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < loop.count; i += int64_t{gridDim.x} * blockDim.x) body(loop.at(i));
}

/// The elements of contiguous buffers: nothing is divided.
template <class Body>
__global__ void flat_kernel(int64_t count, Body body) {
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < count; i += int64_t{gridDim.x} * blockDim.x) body(Offsets<1>{{i}});
}

/// Enqueues `body(offsets)` for every element; `body` is copied to the device.
template <int N, class Body>
void for_each_element(const KernelCall& call, const StridedLoop<N>& loop, const Body& body,
                      const char* kernel) {
  if (loop.count() == 0) return;
  launch_kernel(kernel, strided_kernel<N, Body>, {blocks_for(loop.count()), kThreads}, call.stream,
                DeviceLoop<N>(loop), body);
}

/// The same for the elements of contiguous buffers: `body` gets their numbers, below `count`.
template <class Body>
void for_each_element(const KernelCall& call, int64_t count, const Body& body, const char* kernel) {
  if (count == 0) return;
  launch_kernel(kernel, flat_kernel<Body>, {blocks_for(count), kThreads}, call.stream, count, body);
}

}  // namespace brim::cuda
