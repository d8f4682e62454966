#include "brim/memory/live_buffers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>

#include "brim/base/bytes.h"

namespace brim::memory {

std::string to_string(const BufferShape& shape) {
  if (shape.dims < 0) return "";
  std::span sizes(shape.sizes, static_cast<size_t>(shape.dims));
  return fmt::format("{} [{}]", shape.dtype, fmt::join(sizes, ","));
}

std::string to_string(const BufferInfo& buffer) {
  std::string text =
      fmt::format("{:>9}  {:<13}", format_bytes(buffer.bytes), to_string(buffer.category));
  for (const std::string& part : {to_string(buffer.shape), to_string(buffer.site)})
    if (!part.empty()) text += "  " + part;
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

void LiveBuffers::reserve() {
  if (unused_ == nullptr) unused_ = &nodes_.emplace_back();
}

LiveBuffer* LiveBuffers::add() {
  reserve();
  LiveBuffer* buffer = unused_;
  unused_ = buffer->next;
  buffer->previous = last_;
  buffer->next = nullptr;
  (last_ == nullptr ? first_ : last_->next) = buffer;
  last_ = buffer;
  return buffer;
}

void LiveBuffers::remove(LiveBuffer* buffer) noexcept {
  (buffer->previous == nullptr ? first_ : buffer->previous->next) = buffer->next;
  (buffer->next == nullptr ? last_ : buffer->next->previous) = buffer->previous;
  buffer->next = unused_;
  unused_ = buffer;
}

}  // namespace brim::memory
