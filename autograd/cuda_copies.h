// Copies between a GPU and the host beside the GPU's work: one stream each way, ordered with the
// work by events, so that the host waits for nothing. For `copy_engine`.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "brim/autograd/copy_engine.h"
#include "brim/base/cuda/event.h"
#include "brim/memory/cuda_stream_order.h"

namespace brim::autograd {

class CudaCopies final : public CopyEngine {
 public:
  explicit CudaCopies(Device device) : device_(device) {}
  uint64_t begin(void* to, const void* from, int64_t bytes, CopyDirection direction) override;
  void finish(uint64_t copy) noexcept override;

 private:
  /// One for each copy under way, and those that are free again.
  size_t take_event();

  Device device_;
  std::vector<cuda::Event> events_;
  std::vector<size_t> free_;  // with room for all
};

/// For the host's memory that is copied from and to: whoever finishes any stream of it waits for
/// the copies both ways.
class CudaCopiesOrder final : public memory::StreamOrder {
 public:
  explicit CudaCopiesOrder(Device device) : streams_(device) {}
  void wait(int, int) noexcept override {}
  void finish(int stream) noexcept override;

 private:
  memory::CudaStreamOrder streams_;
};

}  // namespace brim::autograd
