// Copies to host memory and back beside compute: what waits for what. One stream of copies each
// way, each in the order in which they begin; two may be under way at a time. It knows seconds, not
// bytes on the device: recompute_simulator.h does, and recompute_simulation.h has the rules. The
// planner's own; programs call that.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "brim/memory/plan/recompute_flat.h"

namespace brim::memory::recompute {

class Copies {
 public:
  explicit Copies(const FlatGraph& graph) : graph_(graph), end_(graph.bytes.size()) {}

  void begin_step();
  void compute(double seconds) { now_ += seconds; }
  /// Begins to copy `v` to the host. The value that has left before that, or -1.
  int32_t send(int32_t v);
  /// Compute waits for the oldest copy to the host; its value, or -1 where there is none.
  int32_t finish_sending();
  bool may_fetch_ahead() const { return back_.count < kUnderWay; }
  /// Begins to copy `v` back.
  void fetch(int32_t v);
  /// Compute waits until `v`, which was fetched or never left, is back.
  void wait_for(int32_t v);
  /// Seconds that compute waited.
  double waited() const { return waited_; }

 private:
  static constexpr int32_t kUnderWay = 2;  // each way: one is copied, one waits or is used

  /// One way. The values under way are the oldest first.
  struct Stream {
    double free_at = 0;
    int32_t values[kUnderWay] = {};
    int32_t count = 0;
  };

  void begin(int32_t v, Stream& stream);
  void finish(int32_t v, Stream& stream);

  const FlatGraph& graph_;
  double now_ = 0, waited_ = 0;
  Stream out_, back_;
  std::vector<double> end_;  // of the last copy, by value
};

}  // namespace brim::memory::recompute
