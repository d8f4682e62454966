// On a device with streams: the work of a stream on bytes of an arena comes after that of whoever
// had them before. Costs nothing until a stream other than 0 asks for bytes. For the arena planner.
#pragma once

#include <cstdint>
#include <map>

#include "brim/memory/plan/expected.h"
#include "brim/memory/source.h"

namespace brim::memory {

class ArenaStreams {
 public:
  explicit ArenaStreams(Source& source) : source_(source) {}

  /// A request on `stream` comes.
  void note(int stream) {
    if (!streams_.empty() || stream != 0) add(stream);
  }
  /// From here on blocks do not tell who had their bytes before.
  void lose_track() noexcept { ++lost_; }

  /// `stream` takes over a place of the plan: after the blocks before it.
  void before(ExpectedProgram& program, const Expected& expected, int stream) {
    if (!streams_.empty()) order(program, expected, stream);
  }
  /// `stream` takes over a block: after the stream that had it.
  void after(const ArenaBlock& block, int stream) {
    if (!streams_.empty()) source_.wait(stream, block.stream);
  }
  /// `stream` takes over bytes of which nothing is known.
  void after_all(int stream);
  /// All work that was enqueued is done when it returns.
  void finish();

 private:
  void add(int stream);
  void order(ExpectedProgram& program, const Expected& expected, int stream);

  Source& source_;
  // Streams that were used, once there is more than 0, and the state of `lost_` in which each was
  // last ordered after all others.
  std::map<int, uint64_t> streams_;
  uint64_t lost_ = 1;
};

}  // namespace brim::memory
