#include "brim/memory/plan/arena_streams.h"

namespace brim::memory {

void ArenaStreams::add(int stream) {
  streams_.try_emplace(0, 0);
  streams_.try_emplace(stream, 0);
}

void ArenaStreams::order(ExpectedProgram& program, const Expected& expected, int stream) {
  // Of bytes that nobody had in this section it is not known who had them last.
  if (streams_[stream] != lost_) return after_all(stream);
  for (int32_t before : program.before_of(expected))
    source_.wait(stream, program.block(before).stream);
}

void ArenaStreams::after_all(int stream) {
  if (streams_.empty()) return;
  for (const auto& [other, ordered] : streams_) source_.wait(stream, other);
  streams_[stream] = lost_;
}

void ArenaStreams::finish() {
  if (streams_.empty()) source_.finish(0);  // nobody asked on another one
  for (const auto& [stream, ordered] : streams_) source_.finish(stream);
}

}  // namespace brim::memory
