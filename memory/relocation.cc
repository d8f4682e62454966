#include "brim/memory/relocation.h"

#include <algorithm>
#include <set>

#include "brim/base/error.h"

namespace brim::memory {
namespace {

uintptr_t begin(const LiveBuffer& buffer) { return reinterpret_cast<uintptr_t>(buffer.address); }
uintptr_t end(const LiveBuffer& buffer) {
  return begin(buffer) + static_cast<uintptr_t>(buffer.bytes);
}

}  // namespace

Relocation::Relocation(Source& source, LiveBuffers& buffers)
    : source_(source), last_resort_(std::make_unique<DirectPlanner>(source)) {
  std::set<int> streams;
  int64_t bytes = 0;
  for (LiveBuffer* buffer = buffers.first(); buffer != nullptr; buffer = buffer->next) {
    buffers_.push_back(buffer);
    streams.insert(buffer->stream);
    bytes += buffer->bytes;
  }
  by_address_.reserve(buffers_.size());
  last_resort_->reserve(buffers_.size());
  if (!source.has_bytes()) return;
  values_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
  for (int stream : streams) source.finish(stream);
  std::byte* to = values_.get();
  for (const LiveBuffer* buffer : buffers_) {
    source.copy_to_host(to, buffer->address, buffer->bytes);
    to += buffer->bytes;
  }
}

void Relocation::leave(Planner& planner) noexcept {
  for (LiveBuffer* buffer : buffers_) {
    if (buffer->address == nullptr) continue;
    planner.release({buffer->address, buffer->token});
    buffer->address = buffer->token = nullptr;
  }
}

const LiveBuffer* Relocation::enter(Planner& planner) {
  for (LiveBuffer* buffer : buffers_) {
    Placement placement = planner.place_kept({.bytes = buffer->bytes,
                                              .category = buffer->category,
                                              .stream = buffer->stream,
                                              .site = &buffer->site});
    if (placement.address == nullptr) return buffer;
    buffer->address = placement.address;
    buffer->token = placement.token;
  }
  check_places(planner);
  return nullptr;
}

// In every build: what is placed wrongly loses values as soon as they are copied back.
void Relocation::check_places(const Planner& planner) {
  by_address_.assign(buffers_.begin(), buffers_.end());
  std::ranges::sort(by_address_, {}, [](const LiveBuffer* buffer) { return begin(*buffer); });
  const LiveBuffer* below = nullptr;
  for (const LiveBuffer* buffer : by_address_) {
    expect<InternalError>(begin(*buffer) % static_cast<uintptr_t>(kAlignment) == 0, "memory",
                          "the {} planner moved buffer {} to {:#x}, off a {}-byte boundary",
                          planner.name(), buffer->id, begin(*buffer), kAlignment);
    expect<InternalError>(below == nullptr || end(*below) <= begin(*buffer), "memory",
                          "the {} planner moved buffer {} ({} bytes) to {:#x}, over another",
                          planner.name(), buffer->id, buffer->bytes, begin(*buffer));
    below = buffer;
  }
}

void Relocation::copy_back() {
  if (values_ == nullptr) return;
  const std::byte* from = values_.get();
  for (const LiveBuffer* buffer : buffers_) {
    source_.copy_from_host(buffer->address, from, buffer->bytes);
    from += buffer->bytes;
  }
}

}  // namespace brim::memory
