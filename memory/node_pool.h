// Nodes of linked structures, given out and taken back without asking the system once a program has
// settled. For a type with a member `next`, which links the unused ones. Nodes live as long as the
// pool. Not for objects with destructors that matter: an unused node keeps its value.
#pragma once

#include <cstddef>
#include <deque>

namespace brim::memory {

template <class T>
class NodePool {
 public:
  NodePool() = default;
  NodePool(const NodePool&) = delete;
  NodePool& operator=(const NodePool&) = delete;

  /// The next `count` calls of `get` do not allocate, and so do not throw.
  void reserve(size_t count) {
    while (spare_ < count) put(&nodes_.emplace_back());
  }
  T* get(const T& value) {
    reserve(1);
    T* node = unused_;
    unused_ = node->next;
    --spare_;
    *node = value;
    return node;
  }
  void put(T* node) noexcept {
    node->next = unused_;
    unused_ = node;
    ++spare_;
  }

 private:
  std::deque<T> nodes_;
  T* unused_ = nullptr;
  size_t spare_ = 0;
};

}  // namespace brim::memory
