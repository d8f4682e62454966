// Engines of cuDNN by timing and not by its heuristics, as `torch.backends.cudnn.benchmark`. Timing
// needs bytes that no plan has, so it happens before there is a plan: a convolution is timed when a
// rehearsal on the meta device first meets it while an `EngineTimingScope` is open, and never in a
// step that computes. What was found is kept in the table (engine_table.h), and by who asks for it
// in a file (train/engine_file.h), for the next run must not come to another result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace brim {

namespace memory {
class Source;
}

/// For the whole process; off at first. Set it before the first convolution: what was chosen with
/// it and what was chosen without it are kept apart. A convolution that it is on for, and that
/// could not be timed, has the engine that the heuristics name.
void set_cudnn_benchmark(bool on);
bool cudnn_benchmark();

/// Seconds of one run of a candidate, counted from 0; nothing where it cannot run.
using EngineTimer = std::function<std::optional<double>(size_t candidate)>;

/// The candidate with the least median over some rounds, after one that does not count; of equal
/// ones the first. Those that cannot run are left out; nothing where none can. One alone is not
/// timed.
std::optional<size_t> fastest_engine(size_t candidates, const EngineTimer& timer);

/// While it is open, this thread's rehearsals time what they meet on the GPU that `source` has
/// bytes of, one convolution at a time: its tensors and the largest workspace of its candidates.
/// All of it is given back each time. Where the source has not so many, the heuristics choose.
class EngineTimingScope {
 public:
  explicit EngineTimingScope(memory::Source& source);
  ~EngineTimingScope();
  EngineTimingScope(const EngineTimingScope&) = delete;
  EngineTimingScope& operator=(const EngineTimingScope&) = delete;

  /// The innermost of this thread; null for none.
  static EngineTimingScope* current();
  memory::Source& source() const { return source_; }
  void count(bool was_timed) { ++(was_timed ? timed_ : not_timed_); }
  int64_t timed() const { return timed_; }  ///< convolutions
  int64_t not_timed() const { return not_timed_; }

 private:
  memory::Source& source_;
  EngineTimingScope* before_;
  int64_t timed_ = 0, not_timed_ = 0;
};

}  // namespace brim
