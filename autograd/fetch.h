// How offloaded values come back in backward. Before a node runs, what it reads is on the device,
// and copies of what the next two nodes of the walk read are begun, as far as two copies may be
// under way: they run beside the node. What is still leaving when backward comes near it stays, and
// all else that is leaving has left before the first node runs. What a replay reads (rebuild.h) is
// fetched when it is wanted. For `backward` alone.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>

namespace brim::autograd {

class HostCopy;
class Node;

/// One backward pass. Device bytes of what was fetched and is still to be read, where it failed or
/// where the graph is retained, are given back at its end: the host has the values. Scopes nest.
class FetchScope {
 public:
  static constexpr size_t kNodesAhead = 2;

  /// What only the tape holds begins to leave. Throws `std::bad_alloc`.
  FetchScope();
  ~FetchScope();
  FetchScope(const FetchScope&) = delete;
  FetchScope& operator=(const FetchScope&) = delete;

  /// `node` runs now, then `next`, in this order. Throws `memory::OutOfMemory`.
  void before(const Node& node, std::span<const Node* const> next);
  /// For `HostCopy`: it has device bytes again beside those in the host.
  static void note(const std::shared_ptr<HostCopy>& copy);

 private:
  std::deque<std::weak_ptr<HostCopy>> fetched_;
  FetchScope* before_;
};

}  // namespace brim::autograd
