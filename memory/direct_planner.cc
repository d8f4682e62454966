#include "brim/memory/direct_planner.h"

namespace brim::memory {

Placement DirectPlanner::place(const Request& request) {
  pieces_.reserve(1);  // may fail, so before anything is held
  ++requests_;
  void* address = source().allocate(request.bytes);
  if (address == nullptr) return {};
  ++held_;
  return {address, pieces_.get({.bytes = request.bytes, .stream = request.stream})};
}

void DirectPlanner::release(const Placement& placement) noexcept {
  auto* piece = static_cast<Piece*>(placement.token);
  source().finish(piece->stream);
  source().deallocate(placement.address, piece->bytes);
  pieces_.put(piece);
  --held_;
}

PlannerStats DirectPlanner::stats() const { return {.segments = held_, .misses = requests_}; }

std::unique_ptr<Planner> direct_planner(Source& source) {
  return std::make_unique<DirectPlanner>(source);
}

}  // namespace brim::memory
