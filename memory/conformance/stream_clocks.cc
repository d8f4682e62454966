#include "brim/memory/conformance/stream_clocks.h"

#include <algorithm>

namespace brim::memory::conformance {

StreamClocks::StreamClocks(int streams)
    : clocks_(index(streams), Clock(index(streams))), done_(index(streams)) {}

int64_t StreamClocks::work(int stream) { return ++clocks_[index(stream)][index(stream)]; }

bool StreamClocks::is_after(int stream, int other, int64_t time) const {
  return clocks_[index(stream)][index(other)] >= time || is_done(other, time);
}

void StreamClocks::wait(int waiting, int waited) noexcept {
  raise_to(clocks_[index(waiting)], clocks_[index(waited)]);
}

void StreamClocks::finish(int stream) noexcept { raise_to(done_, clocks_[index(stream)]); }

void StreamClocks::raise_to(Clock& clock, const Clock& other) noexcept {
  for (size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

}  // namespace brim::memory::conformance
