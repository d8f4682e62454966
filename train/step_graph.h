// A whole update recorded and started again in each step: where a step follows a plan, its kernels
// get the same addresses every time, so nothing is left for the host to do but to hand over the
// batch and the few numbers that change. On a GPU a CUDA graph, on the CPU a list of calls
// (core/call_list.h). Worth it where kernels are short beside the time to launch them: small
// batches, small images, fast GPUs. The same bits as without.
//
//   TrainStep step(model, optimizer, {.graph = true});
//   StepGraph graph(step);
//   for (...) graph.run({.rate = rate, .inputs = {bytes_of(images)}, .run = [&] { ... }});
//
// Whether the loss and all gradients are finite is judged on the device, which leaves everything as
// it was where they are not; the host reads the verdict with the loss. Such an update is run again
// without the graph, which then says where it began, or skips it. Of a fused update, parameters
// after the first gradient that is not finite are left as they were; where others had changed
// before, the update is torn as ever.
//
// What the host's code does beside launching kernels (counting, printing) happens when an update is
// recorded, not in each. Ops that read values back cannot be recorded. Nor is an update started
// where other tensors are held than when it was recorded: one of an earlier step may lie where the
// step will write. Where a kernel throws, the update is run again as it is, and says what is wrong;
// but for a fused one that had changed parameters, which is torn.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brim/memory/account.h"
#include "brim/optim/judge.h"
#include "brim/train/train_step.h"

namespace brim {

/// Numbers of an update in the device's memory, float64: what recorded kernels read, and then what
/// they leave for the host.
enum LiveNumber {
  kLiveUpdate,    ///< its number
  kLiveGradient,  ///< of its loss: the weight of each part, times the scale of the loss
  kLivePart,      ///< the loss of one part
  kLiveLoss,      ///< the sum of those of all parts
  kLiveVerdict,   ///< and the numbers of `optim::Verdict` behind it
  kLiveApplied = kLiveVerdict + int{optim::kVerdictApplied},
  kLivePieces = kLiveVerdict + int{optim::kVerdictPieces},
  kLiveNumbers = kLiveVerdict + int{optim::kVerdictNumbers}
};

class StepGraph {
 public:
  /// An update of the step.
  struct Update {
    double rate = 0;
    double weight = 1;  ///< `MicroStepOptions::weight` of each of its parts
    /// All of the host's memory that it copies to the device (`copy_from_host`). Updates with
    /// inputs of the same sizes are the same work on other numbers.
    std::vector<std::span<const std::byte>> inputs;
    /// All of it, from `TrainStep::begin` to `commit`: returns the sum of its losses.
    std::function<double()> run;
  };

  /// `step` has `TrainStepOptions::graph`, and must outlive it. Throws `ValueError` where it has
  /// not, and for what cannot be recorded: `offload`. `DeviceError` on the meta device.
  explicit StepGraph(TrainStep& step);
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  /// Runs the update: the first of its kind as it is, and once that has followed a plan, recorded.
  /// Returns and throws what `Update::run` does.
  double run(const Update& update);

  /// Updates that were started from a graph.
  int64_t replays() const { return replays_; }
  /// Why the last update was not, for people; "" where it was.
  const std::string& why_not() const { return why_not_; }

 private:
  friend class TrainStep;
  struct Recorded;
  struct HostState;
  using Kind = std::vector<size_t>;

  double run_as_it_is(const Update& update, Recorded& recorded);
  void record(const Update& update, Recorded& recorded);
  void record_parts(const Update& update, Recorded& recorded);
  void record_graph(const Update& update, Recorded& recorded);
  void record_calls(const Update& update, Recorded& recorded);
  void find_inputs(const Update& update, Recorded& recorded) const;
  void start(Recorded& recorded) const;
  void start_or_tear(Recorded& recorded);
  std::optional<double> replay(const Update& update, Recorded& recorded);
  void write_numbers(const Update& update, Recorded& recorded);
  void count_update(double norm);
  void require_moved_by_kernel() const;
  std::vector<const void*> addresses() const;
  std::vector<uint64_t> live_buffers() const;
  void* pinned(int64_t bytes, Recorded& recorded);

  // Called by the step while it is recorded.
  Tensor gradient_of(const Tensor& loss, double weight);
  void note_loss(const Tensor& loss);
  void judge();
  void judge_pieces();
  Tensor verdict() const;
  void take_home(const Tensor& buffer, const Tensor& shadow) const;

  TrainStep& step_;
  std::shared_ptr<memory::Account> host_;  // of pinned memory; null on the CPU
  std::map<Kind, std::unique_ptr<Recorded>> graphs_;
  Recorded* recorded_ = nullptr;  // while it is being recorded
  double weight_ = 1;
  std::string why_not_;
  int64_t replays_ = 0;
};

}  // namespace brim
