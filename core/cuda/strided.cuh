// Walks several strided buffers of one shape in step on a GPU, one thread an element: what
// `StridedLoop` is on the CPU, which also merges the axes for it. Contiguous buffers cost no
// division. For elementwise kernels; sums and products want loops of their own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

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

/// The merged axes of a `StridedLoop`, as a kernel's argument; or a part of them.
template <int N>
struct DeviceLoop {
  int rank;
  int64_t count, sizes[Dims::kMax], steps[Dims::kMax][N];
  Offsets<N> start{};

  explicit DeviceLoop(const StridedLoop<N>& loop) : rank(loop.rank()), count(loop.count()) {
    for (int axis = 0; axis < rank; ++axis) {
      sizes[axis] = loop.size(axis);
      for (int k = 0; k < N; ++k) steps[axis][k] = loop.steps(axis)[static_cast<size_t>(k)];
    }
  }

  /// Its elements in two parts: halves of the longest axis.
  std::pair<DeviceLoop, DeviceLoop> halves() const {
    const auto axis = std::max_element(sizes, sizes + rank) - sizes;
    const int64_t half = sizes[axis] / 2;
    std::pair parts(*this, *this);
    parts.first.sizes[axis] = half;
    parts.second.sizes[axis] -= half;
    parts.first.count = count / sizes[axis] * half;
    parts.second.count = count - parts.first.count;
    for (int k = 0; k < N; ++k) parts.second.start.of[k] += half * steps[axis][k];
    return parts;
  }

  /// Below 2^32: a GPU divides by 64 bits in a hundred instructions, and by 32 in twenty.
  __device__ Offsets<N> at(uint32_t element) const {
    Offsets<N> offsets = start;
    for (int axis = rank - 1; axis >= 0; --axis) {
      uint32_t index = element;
      if (axis > 0) {
        const uint32_t size = static_cast<uint32_t>(sizes[axis]), rest = element / size;
        index = element - rest * size;
        element = rest;
      }
      for (int k = 0; k < N; ++k) offsets.of[k] += int64_t{index} * steps[axis][k];
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
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < loop.count; i += int64_t{gridDim.x} * blockDim.x)
    body(loop.at(static_cast<uint32_t>(i)));
}

/// The elements of contiguous buffers: nothing is divided.
template <class Body>
__global__ void flat_kernel(int64_t count, Body body) {
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < count; i += int64_t{gridDim.x} * blockDim.x) body(Offsets<1>{{i}});
}

template <int N, class Body>
void enqueue_parts(const KernelCall& call, const DeviceLoop<N>& loop, const Body& body,
                   const char* kernel) {
  if (loop.count > std::numeric_limits<uint32_t>::max()) {
    const auto [first, second] = loop.halves();
    enqueue_parts(call, first, body, kernel);
    return enqueue_parts(call, second, body, kernel);
  }
  launch_kernel(kernel, strided_kernel<N, Body>, {blocks_for(loop.count), kThreads}, call.stream,
                loop, body);
}

/// Enqueues `body(offsets)` for every element; `body` is copied to the device.
template <int N, class Body>
void for_each_element(const KernelCall& call, const StridedLoop<N>& loop, const Body& body,
                      const char* kernel) {
  if (loop.count() > 0) enqueue_parts(call, DeviceLoop<N>(loop), body, kernel);
}

/// The same for the elements of contiguous buffers: `body` gets their numbers, below `count`.
template <class Body>
void for_each_element(const KernelCall& call, int64_t count, const Body& body, const char* kernel) {
  if (count == 0) return;
  launch_kernel(kernel, flat_kernel<Body>, {blocks_for(count), kThreads}, call.stream, count, body);
}

}  // namespace brim::cuda
