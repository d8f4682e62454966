#include "brim/autograd/node.h"

namespace brim::autograd {
namespace {

// Edges whose nodes are let go later: a node's destructor moves its edges here instead of
// destroying its producers inside itself.
thread_local std::vector<std::shared_ptr<Node>>* waiting = nullptr;

void take_nodes(std::vector<Edge>& edges, std::vector<std::shared_ptr<Node>>& list) {
  for (Edge& edge : edges)
    if (edge.node) list.push_back(std::move(edge.node));
}

void destroy_iteratively(std::vector<Edge>& edges) {
  if (waiting != nullptr) return take_nodes(edges, *waiting);
  std::vector<std::shared_ptr<Node>> list;
  take_nodes(edges, list);
  waiting = &list;
  while (!list.empty()) {
    std::shared_ptr<Node> node = std::move(list.back());
    list.pop_back();
    node.reset();  // pushes its own producers, if this was the last edge to it
  }
  waiting = nullptr;
}

}  // namespace

Node::~Node() { destroy_iteratively(edges); }

void Node::release_saved() {
  released = true;
  saved_inputs.clear();
  saved_outputs.clear();
  hooks.clear();  // one may have captured its own tensor, which holds this node
}

std::shared_ptr<Node> producer_of(const Tensor& tensor) {
  return std::static_pointer_cast<Node>(tensor.body()->producer);
}

}  // namespace brim::autograd
