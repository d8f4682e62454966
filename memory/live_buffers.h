// What is held of an account, buffer by buffer, in the order of allocation: for messages, snapshots
// and leak checks. One list node a buffer, reused: keeping the list costs no allocation once a
// program has settled. The account owns one and guards it with its lock.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "brim/memory/category.h"
#include "brim/memory/site.h"

namespace brim::memory {

/// What a buffer holds, for people: memory knows no tensors.
struct BufferShape {
  static constexpr int kMaxDims = 8;
  int64_t sizes[kMaxDims] = {};
  int dims = -1;           ///< -1 where there is no tensor: scratch
  const char* dtype = "";  ///< lives for ever
};

/// "float32 [64,56,56,64]"; "" where there is no tensor.
std::string to_string(const BufferShape& shape);

/// What is known of a buffer. Numbers and text that lives for ever: a copy may outlive the buffer.
struct BufferInfo {
  uint64_t id = 0;    ///< counts allocations of the account from 1
  int64_t bytes = 0;  ///< rounded up
  Category category = Category::other;
  int stream = 0;
  Site site;
  BufferShape shape;
};

/// A line for a list: "   12 MiB  activations    float32 [64,56,56,12]  conv1: conv2d at
/// net.cc:40".
std::string to_string(const BufferInfo& buffer);

struct LiveBuffer : BufferInfo {
  void* address = nullptr;  ///< from one `Account::replan` to the next
  void* token = nullptr;    ///< the planner's own
  LiveBuffer* previous = nullptr;
  LiveBuffer* next = nullptr;
};

class LiveBuffers {
 public:
  LiveBuffers() = default;
  LiveBuffers(const LiveBuffers&) = delete;
  LiveBuffers& operator=(const LiveBuffers&) = delete;

  /// The next `add` does not allocate.
  void reserve();
  /// A node at the end of the list; fields other than the links are the caller's to set.
  LiveBuffer* add();
  void remove(LiveBuffer* buffer) noexcept;
  /// The oldest; follow `next`.
  const LiveBuffer* first() const { return first_; }
  LiveBuffer* first() { return first_; }

 private:
  std::deque<LiveBuffer> nodes_;
  LiveBuffer* unused_ = nullptr;  // linked by `next`
  LiveBuffer* first_ = nullptr;
  LiveBuffer* last_ = nullptr;
};

}  // namespace brim::memory
