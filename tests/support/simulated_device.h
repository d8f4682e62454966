// A device that works after the calls that enqueue work on it have returned, on host memory: each
// stream is a queue of kernels, and which stream goes on next is drawn. What a planner hands to
// another stream too early, or returns too early, is then written by one and read by another, and
// found. Single-threaded: kernels run inside `enqueue`, `finish` and `finish_all`.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "brim/base/random.h"
#include "brim/memory/source.h"

namespace brim::testing {

class SimulatedDevice final : public memory::StreamOrder {
 public:
  using Kernel = std::function<void()>;

  SimulatedDevice(int streams, uint64_t seed)
      : queues_(static_cast<size_t>(streams)), random_(RandomKey{seed}) {}

  /// A kernel that reads or writes [begin, begin + bytes). Now and then others run first.
  void enqueue(int stream, const void* begin, int64_t bytes, Kernel kernel) {
    queue(stream).work.push_back(
        {std::move(kernel), static_cast<const char*>(begin), bytes, -1, 0});
    ++queue(stream).enqueued;
    while (random_.uniform() < 0.4f) run_one();
  }
  void wait(int waiting, int waited) noexcept override {
    queue(waiting).work.push_back({{}, nullptr, 0, waited, queue(waited).enqueued});
    ++queue(waiting).enqueued;
    ++waits;
  }
  void finish(int stream) noexcept override {
    int64_t until = queue(stream).enqueued;
    while (queue(stream).done < until) run_one();
    ++finishes;
  }
  void finish_all() {
    for (size_t stream = 0; stream < queues_.size(); ++stream) finish(static_cast<int>(stream));
  }
  /// Has a kernel on these bytes not run yet?
  bool uses(const void* begin, int64_t bytes) const {
    const char* p = static_cast<const char*>(begin);
    for (const Queue& queue : queues_)
      for (const Work& work : queue.work)
        if (work.begin < p + bytes && p < work.begin + work.bytes) return true;
    return false;
  }

  int64_t waits = 0, finishes = 0;

 private:
  struct Work {
    Kernel kernel;  // empty: only waits for `count` entries of the queue `waited`
    const char* begin;
    int64_t bytes;
    int waited;
    int64_t count;
  };
  struct Queue {
    std::deque<Work> work;
    int64_t enqueued = 0, done = 0;
  };

  Queue& queue(int stream) { return queues_[static_cast<size_t>(stream)]; }

  // The next entry of a stream that is drawn among those that can go on. There is one while there
  // is work: who waits, waits for what was enqueued before.
  void run_one() {
    std::vector<Queue*> ready;
    for (Queue& queue : queues_)
      if (!queue.work.empty() && can_run(queue.work.front())) ready.push_back(&queue);
    if (ready.empty()) return;
    Queue& next = *ready[random_.below(ready.size())];
    Work work = std::move(next.work.front());
    next.work.pop_front();
    if (work.kernel) work.kernel();
    ++next.done;
  }
  bool can_run(const Work& work) {
    return work.waited < 0 || queue(work.waited).done >= work.count;
  }

  std::vector<Queue> queues_;
  RandomStream random_;
};

/// Its memory. What comes back while kernels still use it is counted, and kept for their sake.
class SimulatedDeviceSource final : public memory::Source {
 public:
  SimulatedDeviceSource(int64_t capacity, std::shared_ptr<SimulatedDevice> device)
      : Source(capacity), device_(std::move(device)) {
    set_stream_order(device_);
  }
  ~SimulatedDeviceSource() override {
    for (void* address : kept_) std::free(address);
  }

  int64_t returned_too_early() const { return static_cast<int64_t>(kept_.size()); }

 private:
  void* take(int64_t bytes) override {
    return std::aligned_alloc(static_cast<size_t>(memory::kAlignment), static_cast<size_t>(bytes));
  }
  void give_back(void* address, int64_t bytes) noexcept override {
    if (device_->uses(address, bytes))
      kept_.push_back(address);
    else
      std::free(address);
  }

  std::shared_ptr<SimulatedDevice> device_;
  std::vector<void*> kept_;
};

}  // namespace brim::testing
