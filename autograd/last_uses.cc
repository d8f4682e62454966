#include "brim/autograd/last_uses.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>

namespace brim::autograd {
namespace {

bool earlier(const Node* a, const Node* b) { return a->sequence < b->sequence; }

}  // namespace

std::vector<LastUse> last_uses(const Edge& root) {
  if (root.node == nullptr) return {{root.leaf}};
  std::vector<LastUse> uses;
  std::unordered_map<const TensorBody*, size_t> places;
  // The order of backward: whatever leads to a node twice has put it side by side with itself.
  std::priority_queue<const Node*, std::vector<const Node*>, decltype(&earlier)> queue(&earlier);
  queue.push(root.node.get());
  while (!queue.empty()) {
    const Node* node = queue.top();
    while (!queue.empty() && queue.top() == node) queue.pop();
    for (const Edge& edge : node->edges) {
      if (edge.node != nullptr) queue.push(edge.node.get());
      if (edge.leaf == nullptr) continue;
      auto [place, is_new] = places.emplace(edge.leaf.get(), uses.size());
      if (is_new) uses.push_back({.leaf = edge.leaf, .uses = 0});
      LastUse& use = uses[place->second];
      use.sequence = node->sequence;
      ++use.uses;
    }
  }
  std::ranges::stable_sort(uses, std::ranges::greater(), &LastUse::sequence);
  return uses;
}

}  // namespace brim::autograd
