// What each run of an op computes and moves, seen on the meta device: what its time follows from.
// FLOPs and bytes are counted as autograd/trace_recorder.h says. With `keeps_calls` also the
// recorded calls themselves, so that they can be timed on a real device (train/measured_ops.h).
// Where and when buffers live is in a trace.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "brim/autograd/op.h"
#include "brim/core/launch.h"
#include "brim/memory/site.h"

namespace brim {

namespace autograd {
class Node;
}

struct OpRun {
  std::string op;  ///< of a kernel outside of ops its own name
  memory::Phase phase = memory::Phase::other;
  double flops = 0;
  int64_t bytes_moved = 0;
  int64_t bytes_of_effects = 0;  ///< among them: of `Op::apply_effects`
  int64_t bytes_widened = 0;     ///< besides: float32 copies of halves, passes of their own
  /// Equal for runs that take equally long: op, phase, shapes, FLOPs, and which gradients are
  /// wanted of a backward one; where one of them stays factors, its time is counted all the same.
  /// "" without `keeps_calls`, and for kernels outside of ops.
  std::string key;
};

/// A recorded call without its tensors.
struct OpCall {
  std::shared_ptr<const autograd::Op> op;
  std::vector<autograd::TensorInfo> inputs, outputs;  ///< on the device where it was recorded
  autograd::Needs needs;
  autograd::ForwardContext context;

  double flops() const { return op->flops(inputs, outputs); }
  /// `OpRun::key` of its runs.
  std::string key(memory::Phase phase) const;
};

OpCall call_of(const autograd::Node& node);

/// The run of a call that makes its results again. That of a one-pass op reads its inputs and
/// writes its outputs, also where forward swept them more often, as batch norm does.
OpRun replay_of(const OpCall& call, const OpRun& forward);

struct SeenRuns {
  std::deque<OpRun> runs;
  std::map<std::string, OpCall> calls;  ///< that have a backward run, by its key
};

/// Sees the ops and kernels of this thread, until `take`.
class OpRuns final : public autograd::OpObserver, public LaunchObserver {
 public:
  explicit OpRuns(bool keeps_calls = false) : keeps_calls_(keeps_calls) {}

  /// Ends it and gives what was seen. Once.
  SeenRuns take();
  const std::deque<OpRun>& runs() const { return seen_.runs; }  ///< so far
  /// The number of the run that is under way, or that its observers are being told of.
  size_t current();
  /// Forgets what was seen.
  void clear() { seen_ = {}, numbers_.clear(); }

  void ran(const autograd::OpEvent& event) override;
  void launched(const LaunchEvent& event) override;

 private:
  bool keeps_calls_, watching_ = true;
  SeenRuns seen_;
  std::unordered_map<uint64_t, size_t> numbers_;  // of runs, from `Site::run`
  LaunchObserverScope watch_{*this};
};

}  // namespace brim
