#include "brim/autograd/last_uses.h"

#include <algorithm>
#include <deque>
#include <map>
#include <queue>

namespace brim::autograd {
namespace {

bool earlier(const Node* a, const Node* b) { return a->sequence < b->sequence; }

}  // namespace

std::deque<LastUse> last_uses(const Edge& root) {
  if (root.node == nullptr) return {{.leaf = root.leaf}};
  std::deque<LastUse> uses;
  std::map<const TensorBody*, size_t> places;
  // The order of backward: whatever leads to a node twice has put it side by side with itself.
  std::priority_queue<const Node*, std::deque<const Node*>, decltype(&earlier)> queue(&earlier);
  queue.push(root.node.get());
  while (!queue.empty()) {
    const Node* node = queue.top();
    while (!queue.empty() && queue.top() == node) queue.pop();
    for (const Edge& edge : node->edges) {
      if (edge.node != nullptr) queue.push(edge.node.get());
      if (edge.leaf == nullptr) continue;
      auto [place, is_new] = places.emplace(edge.leaf.get(), uses.size());
      if (is_new) uses.push_back({.leaf = edge.leaf, .uses = 0, .place = uses.size()});
      LastUse& use = uses[place->second];
      use.sequence = node->sequence;
      ++use.uses;
    }
  }
  std::ranges::sort(uses, [](const LastUse& a, const LastUse& b) {
    return a.sequence != b.sequence ? a.sequence > b.sequence : a.place < b.place;
  });
  return uses;
}

}  // namespace brim::autograd
