// Work on a GPU that is recorded once and then started as often as one likes by one call: a CUDA
// graph. The GPU gets the same kernels and copies with the same arguments, addresses included,
// without the host's work to find and enqueue each of them. What changes from one start to the next
// has to be read from memory: by kernels from the GPU's, by copies from pinned memory of the
// host's. For a whole training step see train/step_graph.h.
//
//   Recording recording(device, pinned);
//   ...                                // enqueues; nothing runs
//   Graph graph = recording.finish();
//   graph.start();
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "brim/base/device.h"

struct CUgraphExec_st;  // CUDA's cudaGraphExec_t points to one

namespace brim::cuda {

class Graph {
 public:
  /// Nothing, which `start` starts.
  Graph() = default;
  /// Enqueues the work on the device's default stream. Throws `DeviceError`.
  void start() const;

 private:
  friend class Recording;
  struct Destroy {
    void operator()(CUgraphExec_st* graph) const noexcept;
  };
  Device device_;
  std::unique_ptr<CUgraphExec_st, Destroy> graph_;
};

/// While it lives, what this thread enqueues on the device's default stream is recorded and does
/// not run. Whoever wants to see values that the GPU would compute, or waits for it, gets a
/// `DeviceError` that says so.
class Recording {
 public:
  /// So many bytes of pinned memory, which outlive the graph. May throw.
  using Pinned = std::function<void*(int64_t bytes)>;

  /// Throws `DeviceError`, `ValueError` inside another one of this thread.
  Recording(Device device, Pinned pinned);
  /// Drops what was not finished.
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// Ends it. Throws `DeviceError` where something was enqueued that cannot be recorded.
  Graph finish();

  /// A copy to the device. The graph makes it from `pinned`, which has the bytes of `from` of when
  /// it was recorded until somebody writes others there.
  struct Upload {
    const void* from = nullptr;
    void* pinned = nullptr;
    int64_t bytes = 0;
  };
  const std::vector<Upload>& uploads() const { return uploads_; }

  /// This thread's; null outside of one.
  static Recording* current();
  /// Of `copy_to_device` (memory.h).
  void upload(void* to, const void* from, int64_t bytes);

 private:
  void leave() noexcept;

  Device device_;
  Pinned pinned_;
  std::vector<Upload> uploads_;
};

inline bool is_recording() { return Recording::current() != nullptr; }

}  // namespace brim::cuda
