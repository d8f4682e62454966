// What a decision for each value costs, in time linear in what happens: the planner's own form, for
// any range of forward ops with the backward steps that belong to it. recompute_simulation.h says
// what happens when; programs call that.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "brim/memory/plan/recompute_copies.h"
#include "brim/memory/plan/recompute_flat.h"
#include "brim/memory/plan/recompute_simulation.h"

namespace brim::memory::recompute {

/// Forward ops and backward steps, half-open. What ops before them made is taken to be there, and
/// is not counted: it is kept. Only the whole step offloads.
struct Range {
  int32_t first_op = 0, end_op = 0;
  int32_t first_step = 0, end_step = 0;
};

struct Limits {
  double seconds = std::numeric_limits<double>::infinity();  ///< give up above it
  int64_t replays = std::numeric_limits<int64_t>::max();
  /// `Outcome::excess` is measured from it, without the fixed bytes.
  int64_t bytes = std::numeric_limits<int64_t>::max();
};

struct Cost {
  bool finished = false;    ///< within the limits and the host; the rest says nothing where not
  int64_t peak = 0;         ///< without the fixed bytes
  int64_t peak_moment = 0;  ///< the first with that peak
  int64_t kept = 0;  ///< bytes of values of the range that live when its forward ops have run, for
                     ///< backward or for later ops
  double seconds = 0;  ///< of replays, and of waits
  double waits = 0;    ///< for copies
  int64_t host = 0;    ///< bytes that were offloaded
  int64_t replays = 0;
  double excess = 0;  ///< the sum over all moments of bytes above `Limits::bytes`
};

class Simulator {
 public:
  /// Keeps a reference to `graph`.
  explicit Simulator(const FlatGraph& graph);

  Cost run(const Range& range, std::span<const Fate> saving, const Limits& limits = {});
  /// The whole step.
  Cost run(std::span<const Fate> saving, const Limits& limits = {});
  /// From now on, or no longer, what happens is written down in `timeline`.
  void record(bool on) { recording_ = on; }
  /// Of the last run, in flat numbers, without the fixed bytes; its instances in no order.
  const RecomputeTimeline& timeline() const { return timeline_; }

  int64_t runs() const { return runs_; }
  /// Moments of all runs, by which work is counted.
  int64_t work() const { return work_; }

 private:
  using Kind = RecomputeTimeline::Kind;

  struct Change {
    int64_t transient = 0;  // bytes of this moment alone
    int64_t growth = 0;     // of values
  };

  void begin_moment(int64_t transient, Kind kind, int32_t number);
  void forward(const Range& range, std::span<const Fate> saving);
  void copy_out(std::span<const Fate> saving);
  void leave(int32_t v, int32_t last);
  bool is_read_soon(int32_t v, int32_t step) const;
  bool backward(const Range& range, std::span<const Fate> saving, const Limits& limits);
  void collect(int32_t step, std::span<const Fate> saving);
  void fetch_for(int32_t step, std::span<const Fate> saving);
  void fetch(int32_t v, int32_t moment);
  void read(std::span<const int32_t> values, std::span<const Fate> saving);
  void replay(int32_t op, int32_t step, std::span<const Fate> saving);
  void backward_step(int32_t step, std::span<const Fate> saving);
  void end_instance(int32_t v);
  void finish(const Range& range, std::span<const Fate> saving, const Limits& limits);
  bool present(int32_t v, int32_t step) const {
    return v < first_value_ || present_until_[at(v)] >= step;
  }
  bool is_in_host(int32_t v, std::span<const Fate> saving) const {
    return v >= first_value_ && saving[at(v)] == Fate::offload && present_until_[at(v)] < 0;
  }
  bool is_at_hand(int32_t v, int32_t step, std::span<const Fate> saving) const {
    return present(v, step) || saving[at(v)] == Fate::offload;
  }
  void need(int32_t v, int32_t step, std::span<const Fate> saving);
  void need_sources(int32_t v, int32_t step, std::span<const Fate> saving);
  bool find_rows(int32_t v, int32_t step, std::span<const Fate> saving);
  void need_rows(int32_t v, int32_t step, std::span<const Fate> saving);

  const FlatGraph& graph_;
  // Of this run:
  Cost cost_;
  int32_t first_value_ = 0;
  int32_t now_ = -1;  // the moment
  std::vector<Change> changes_;
  std::vector<int32_t> present_until_;  // the backward step, by value
  std::vector<int32_t> born_, last_;    // moments, by value; born -1: not there
  std::vector<int32_t> replays_;        // ops, for the next step
  std::vector<int64_t> collected_;      // the stamp, by op
  std::vector<int64_t> collected_rows_;
  int64_t stamp_ = 0;
  // Of the next step: what it reads of its reads, and instead of the others; ops whose rows are
  // made, and bytes in the place of what is read by rows.
  std::vector<int32_t> reads_, sources_, row_ops_;
  int64_t row_bytes_ = 0;
  bool offloads_ = false;
  Copies copies_;

  bool recording_ = false;
  RecomputeTimeline timeline_;
  int64_t runs_ = 0, work_ = 0;
};

}  // namespace brim::memory::recompute
