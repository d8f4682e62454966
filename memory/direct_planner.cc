#include "brim/memory/direct_planner.h"

#include "brim/base/bytes.h"

namespace brim::memory {

Placement DirectPlanner::place(const Request& request) {
  pieces_.reserve(1);  // may fail, so before anything is held
  ++requests_;
  const int64_t bytes = round_up(request.bytes, source().pages().bytes);
  void* address = source().allocate(bytes);
  if (address == nullptr) return {};
  ++held_;
  fragmented_ += bytes - request.bytes;
  return {address,
          pieces_.get({.bytes = bytes, .requested = request.bytes, .stream = request.stream})};
}

void DirectPlanner::release(const Placement& placement) noexcept {
  auto* piece = static_cast<Piece*>(placement.token);
  source().finish(piece->stream);
  source().deallocate(placement.address, piece->bytes);
  fragmented_ -= piece->bytes - piece->requested;
  pieces_.put(piece);
  --held_;
}

PlannerStats DirectPlanner::stats() const { return {.segments = held_, .misses = requests_}; }

std::unique_ptr<Planner> direct_planner(Source& source) {
  return std::make_unique<DirectPlanner>(source);
}

}  // namespace brim::memory
