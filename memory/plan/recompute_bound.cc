#include "brim/memory/plan/recompute_bound.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace brim::memory::recompute {
namespace {

constexpr int64_t kMoments = 64;  // that are looked at closely
constexpr int64_t kShares = 64;   // of missing bytes, that may lie in the host

/// The moments of a step without replays: forward ops, then backward steps.
class Needs {
 public:
  explicit Needs(const FlatGraph& graph)
      : graph_(graph), last_whole_(graph.bytes.size(), -1), last_rows_(graph.bytes.size(), -1) {
    for (int32_t step = 0; step < graph.steps(); ++step)
      for (int32_t i = graph.step_reads.begins[at(step)]; i < graph.step_reads.begins[at(step) + 1];
           ++i) {
        const int32_t v = graph.step_reads.items[at(i)];
        if (graph.instead[at(i)] == Instead::nothing) last_whole_[at(v)] = step;
        if (graph.instead[at(i)] == Instead::rows) last_rows_[at(v)] = step;
      }
    for (double seconds : graph.op_seconds) forward_ += seconds;
    for (double seconds : graph.step_seconds) backward_ += seconds;
    sum();
  }

  int64_t moments() const { return graph_.ops() + graph_.steps(); }
  /// Bytes that are there or must be rebuilt.
  int64_t all(int64_t moment) const { return all_[at(moment)]; }
  /// Bytes that are there whatever the plan.
  int64_t there(int64_t moment) const { return there_[at(moment)]; }

  /// Seconds to be short of `bytes` at a moment, of which at least as many may be missing.
  double seconds_without(int64_t moment, int64_t bytes) const {
    const std::vector<Replay> ops = replays(moment);
    const int64_t most = std::min(bytes, offloadable(moment));
    if (most == 0) return seconds_of(ops, bytes);
    // Between two shares, what copies take is no less than with the smaller one, and what replays
    // take no less than with the larger.
    double best = std::numeric_limits<double>::infinity();
    const int64_t width = most / kShares + 1;
    for (int64_t x = 0; x <= most; x += width) {
      const double copy = static_cast<double>(x) / graph_.host_bytes_per_second;
      const double again = seconds_of(ops, bytes - std::min(x + width - 1, most));
      best = std::min(best, std::max(0.0, copy - forward_) + std::max(again, copy - backward_));
    }
    return best;
  }

 private:
  using Replay = std::pair<double, int64_t>;  // seconds, bytes that later steps read

  /// By seconds per byte.
  std::vector<Replay> replays(int64_t moment) const {
    std::vector<Replay> ops;
    int32_t op_of_last = -1;
    for (int32_t v = 0; v < graph_.values(); ++v) {
      if (!graph_.may_drop[at(v)] || !may_be_missing(v, moment)) continue;
      const int32_t op = graph_.producer[at(v)];
      const double seconds = seconds_after(v, moment);
      if (op != std::exchange(op_of_last, op)) ops.emplace_back(seconds, 0);
      ops.back().first = std::min(ops.back().first, seconds);
      ops.back().second += graph_.bytes[at(v)];
    }
    std::ranges::sort(ops, [](const auto& a, const auto& b) {
      return a.first * static_cast<double>(b.second) < b.first * static_cast<double>(a.second);
    });
    return ops;
  }

  /// That its producer runs at least, for steps after the moment.
  double seconds_after(int32_t v, int64_t moment) const {
    const int32_t op = graph_.producer[at(v)];
    const int64_t step = std::max<int64_t>(moment - graph_.ops(), -1);
    if (last_whole_[at(v)] > step) return graph_.replay_seconds[at(op)];
    // Also for the moment's own step, which is not among those that have its bytes.
    if (last_rows_[at(v)] < std::max<int64_t>(step, 0)) return 0;
    return std::min(graph_.replay_seconds[at(op)], graph_.row_seconds[at(op)]);
  }

  /// Infinite where they do not give so many bytes.
  static double seconds_of(const std::vector<Replay>& ops, int64_t bytes) {
    double seconds = 0;
    for (const auto& [cost, gain] : ops) {
      if (bytes <= 0) return seconds;
      seconds +=
          gain <= bytes ? cost : cost * static_cast<double>(bytes) / static_cast<double>(gain);
      bytes -= gain;
    }
    return bytes > 0 ? std::numeric_limits<double>::infinity() : seconds;
  }

  /// Bytes that may lie in the host at a moment.
  int64_t offloadable(int64_t moment) const {
    int64_t bytes = 0;
    for (int32_t v : graph_.offload_order)
      if (may_be_missing(v, moment)) bytes += graph_.bytes[at(v)];
    return std::min(bytes, graph_.host_bytes);
  }

  /// A backward step reads it after the moment, and only for that it may be there.
  bool may_be_missing(int32_t v, int64_t moment) const {
    if (!graph_.may_leave(v) || !graph_.saved[at(v)] || graph_.bytes[at(v)] == 0) return false;
    if (moment < graph_.ops()) return graph_.last_read[at(v)] < moment;
    const auto step = static_cast<int32_t>(moment - graph_.ops());
    return graph_.last_step[at(v)] >= step && !takes_bytes(v, step);
  }

  /// Does a step that may read it have its bytes, of it or of the gradient in its place?
  bool takes_bytes(int32_t v, int32_t step) const {
    const auto reads = graph_.step_reads[step];
    const auto found = std::ranges::find(reads, v);
    if (found == reads.end()) return false;
    const auto i = graph_.step_reads.begins[at(step)] + (found - reads.begin());
    if (graph_.instead[at(i)] == Instead::rows) return graph_.last_step[at(v)] == step;
    return graph_.instead[at(i)] == Instead::nothing;
  }

  /// Values that are needed from `begin` to `end`, both included.
  static void add(std::vector<int64_t>& bytes, int64_t begin, int64_t end, int64_t size) {
    bytes[at(begin)] += size;
    bytes[at(end) + 1] -= size;
  }

  void sum() {
    const int64_t ops = graph_.ops();
    all_.assign(at(moments()) + 1, 0);
    there_.assign(at(moments()) + 1, 0);
    for (int32_t v = 0; v < graph_.values(); ++v) {
      const int64_t read = graph_.last_read[at(v)], size = graph_.bytes[at(v)];
      const int64_t last = graph_.last_step[at(v)] < 0 ? read : ops + graph_.last_step[at(v)];
      add(all_, graph_.producer[at(v)], last, size);
      add(there_, graph_.producer[at(v)], graph_.may_leave(v) ? read : last, size);
    }
    for (size_t i = 1; i < all_.size(); ++i) {
      all_[i] += all_[i - 1];
      there_[i] += there_[i - 1];
    }
    for (int64_t moment = 0; moment < moments(); ++moment) {
      const int64_t extra =
          moment < ops ? graph_.scratch[at(moment)] : graph_.held[at(moment - ops)];
      all_[at(moment)] += extra;
      there_[at(moment)] += extra + read_by(moment);
    }
  }

  /// Bytes that a backward step has of what it reads and may have left.
  int64_t read_by(int64_t moment) const {
    if (moment < graph_.ops()) return 0;
    const auto step = static_cast<int32_t>(moment - graph_.ops());
    int64_t bytes = 0;
    for (int32_t v : graph_.step_reads[step])
      if (graph_.may_leave(v) && takes_bytes(v, step)) bytes += graph_.bytes[at(v)];
    return bytes;
  }

  const FlatGraph& graph_;
  std::vector<int32_t> last_whole_;    // step that reads all of a value; -1 for none
  std::vector<int32_t> last_rows_;     // that reads it by rows
  std::vector<int64_t> all_, there_;   // by moment
  double forward_ = 0, backward_ = 0;  // seconds
};

}  // namespace

int64_t bound_peak(const FlatGraph& graph) {
  const Needs needs(graph);
  int64_t peak = 0;
  for (int64_t m = 0; m < needs.moments(); ++m) peak = std::max(peak, needs.there(m));
  return peak;
}

double bound_seconds(const FlatGraph& graph, int64_t budget) {
  if (bound_peak(graph) > budget) return std::numeric_limits<double>::infinity();
  const Needs needs(graph);
  const int64_t parts = std::min(kMoments, needs.moments());
  double seconds = 0;
  for (int64_t part = 0; part < parts; ++part) {
    int64_t most = part * needs.moments() / parts;
    for (int64_t m = most; m < (part + 1) * needs.moments() / parts; ++m)
      if (needs.all(m) > needs.all(most)) most = m;
    if (needs.all(most) > budget)
      seconds = std::max(seconds, needs.seconds_without(most, needs.all(most) - budget));
  }
  return seconds;
}

}  // namespace brim::memory::recompute
