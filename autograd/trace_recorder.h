// Writes down what a program asks of an account and what it computes: a `memory::Trace`. On the
// meta device that is how a step is known before it runs; on a real one it is what happened, with
// times. One recorder at a time for an account; it must be destroyed on its thread, before
// observers that were made before it. For totals alone `Account::stats()` is enough.
//
//   autograd::TraceRecorder recorder(memory::account(Device::meta()));
//   step.run(rate, loss);
//   memory::Trace trace = recorder.take();
//
// Buffers that are held already when it is made come first, as if just asked for: their sum is then
// the account's at any time.
//
// An op of the trace is one run of an op, forward or backward, with all kernels that it launched;
// a kernel outside of ops (the optimizer's, copies) is an op by itself, named after the kernel.
// What is outside of ops and within a training step, but in none of its micro-steps, is of phase
// update.
//
// FLOPs: forward `Op::flops`; backward as many again for each input that wants a gradient. Vectors
// (biases, scales of channels) do not count where a larger input does: their gradients are sums
// over numbers that the others' read anyway. Bytes moved: for each kernel the elements of its
// views, once; a broadcast one's are few. Outputs that it reads too count twice.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "brim/autograd/op.h"
#include "brim/core/launch.h"
#include "brim/memory/trace.h"

namespace brim::autograd {

/// Of one run of a kernel, counted as above.
int64_t bytes_moved(const LaunchEvent& event);
/// Of those, what conversions of halves add: float32 copies, which the kernel finds in the caches.
int64_t bytes_widened(const LaunchEvent& event);
/// Of one backward run of a recorded call, counted as above.
double backward_flops(const Node& node);

class TraceRecorder final : public memory::Recorder, public LaunchObserver, public OpObserver {
 public:
  /// Records buffers of all threads, and the ops and kernels of this one.
  explicit TraceRecorder(std::shared_ptr<memory::Account> account);
  ~TraceRecorder() override;

  /// Ends the recording and gives it; what is still held has no death yet, and sections under way
  /// end. Once.
  memory::Trace take();

  void allocated(const memory::Block& block) override;
  void released(const memory::Block& block) noexcept override;
  void recategorized(const memory::Block& block, memory::Category before) noexcept override;
  void resited(const memory::Block& block) noexcept override;
  void moved() noexcept override;
  void began_step() override;
  void ended_step() noexcept override;
  void began_section(const memory::Section& section) override;
  void ended_section() noexcept override;
  void launched(const LaunchEvent& event) override;
  void finished() override;
  void ran(const OpEvent& event) override;

 private:
  // What becomes an `Origin`: text is made of it only at the end.
  struct Source {
    memory::Site site;
    memory::BufferShape shape = {};
  };
  struct Held {
    const memory::LiveBuffer* buffer;
    int64_t number;  // in the trace
  };

  int64_t now() const { return static_cast<int64_t>(trace_.buffers.size()); }
  double seconds() const;
  void add_buffer(const memory::LiveBuffer& buffer, int64_t run);
  int64_t run_of(const memory::Site& site);
  memory::Phase phase_of(const memory::Site& site) const;
  /// The number of a buffer that is held, or -1.
  int64_t held(const memory::Block& block) const;
  memory::TraceOp& add_op(const memory::Site& site);
  memory::TraceOp& op_of(const memory::Site& site);
  void extend(memory::TraceOp& op) const;
  void touch(std::span<const View> views, std::vector<int64_t>& into);

  std::shared_ptr<memory::Account> account_;
  const std::thread::id thread_ = std::this_thread::get_id();
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const bool timed_;
  bool recording_ = true;

  std::mutex mutex_;  // buffers come from any thread
  memory::Trace trace_;
  std::vector<Source> buffer_sources_, op_sources_;
  std::map<const char*, Held> live_;  // buffers by where they begin
  std::unordered_map<uint64_t, size_t> ops_of_runs_;
  std::unordered_map<uint64_t, int64_t> runs_;  // numbers of runs of ops, from `Site::run`
  int64_t next_run_ = 0;
  bool outside_ = false;  // was the last request made outside of ops?

  std::vector<size_t> open_sections_;
  int64_t steps_ = 0;
  bool in_step_ = false;

  // The kernel that runs, its op, and what it reads, writes and has as scratch.
  bool launching_ = false;
  size_t launching_op_ = 0;
  std::vector<int64_t> touched_;

  LaunchObserverScope watch_{*this};
};

}  // namespace brim::autograd
