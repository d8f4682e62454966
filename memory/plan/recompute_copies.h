// Copies to host memory and back beside compute: what waits for what. One stream of copies each
// way, each in the order in which they begin; a few may be under way at a time. It knows seconds,
// not bytes on the device: recompute_simulator.h does, and recompute_simulation.h has the rules.
// The planner's own; programs call that.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "brim/memory/plan/recompute_flat.h"

namespace brim::memory::recompute {

class Copies {
 public:
  static constexpr int32_t kUnderWay = 2;  ///< each way; the buffers of double buffering

  explicit Copies(const FlatGraph& graph) : graph_(graph), ready_(graph.bytes.size()) {}

  void begin_step();
  void compute(double seconds) { now_ += seconds; }
  /// Begins to copy `v` to the host, after what is under way. Where as many are under way as may
  /// be, compute waits for the oldest; the value that has left by that, else -1.
  int32_t copy_out(int32_t v);
  /// Compute waits for the oldest copy to the host; the value, or -1 where there is none.
  int32_t finish_oldest();
  /// Begins to copy `v` back.
  void fetch(int32_t v) { ready_[at(v)] = copied(v, back_free_at_); }
  /// Compute waits until `v` is back.
  void wait_for(int32_t v) { wait_until(ready_[at(v)]); }
  /// Seconds that compute waited.
  double waited() const { return waited_; }

 private:
  /// When a copy will be done that begins as soon as its stream is free.
  double copied(int32_t v, double& free_at) const {
    free_at = std::max(free_at, now_) +
              static_cast<double>(graph_.bytes[at(v)]) / graph_.host_bytes_per_second;
    return free_at;
  }
  void wait_until(double when) {
    if (when <= now_) return;
    waited_ += when - now_;
    now_ = when;
  }

  const FlatGraph& graph_;
  double now_ = 0, waited_ = 0;
  double out_free_at_ = 0, back_free_at_ = 0;
  std::vector<double> ready_;                                // when it is back, by value
  std::array<std::pair<int32_t, double>, kUnderWay> out_{};  // value and end, oldest first
  int32_t out_count_ = 0;
};

}  // namespace brim::memory::recompute
