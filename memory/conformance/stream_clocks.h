// Streams that do no work but know its order: a vector clock for each (Mattern, 1988). Tells
// whether work that was enqueued on one stream comes after what another had on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "brim/memory/stream.h"

namespace brim::memory::conformance {

class StreamClocks final : public StreamOrder {
 public:
  explicit StreamClocks(int streams);

  /// Enqueues work on `stream`; returns its time there.
  int64_t work(int stream);
  /// Does what is enqueued on `stream` from now on start after the work of `other` at `time`?
  bool is_after(int stream, int other, int64_t time) const;
  bool is_done(int stream, int64_t time) const { return done_[index(stream)] >= time; }

  void wait(int waiting, int waited) noexcept override;
  void finish(int stream) noexcept override;

 private:
  using Clock = std::vector<int64_t>;  // by stream: the last time that comes before

  static size_t index(int stream) { return static_cast<size_t>(stream); }
  static void raise_to(Clock& clock, const Clock& other) noexcept;

  std::vector<Clock> clocks_;  // of the next work on each
  Clock done_;
};

}  // namespace brim::memory::conformance
