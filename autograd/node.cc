#include "brim/autograd/node.h"

namespace brim::autograd {
namespace {

// Nodes whose destruction waits: a node's destructor moves its producers here instead of
// destroying them inside itself.
thread_local std::vector<std::shared_ptr<Node>>* waiting = nullptr;

void destroy_iteratively(std::vector<Edge>& edges) {
  if (waiting != nullptr) {
    for (Edge& edge : edges)
      if (edge.node && edge.node.use_count() == 1) waiting->push_back(std::move(edge.node));
    return;
  }
  std::vector<std::shared_ptr<Node>> list;
  waiting = &list;
  for (Edge& edge : edges)
    if (edge.node && edge.node.use_count() == 1) list.push_back(std::move(edge.node));
  while (!list.empty()) {
    std::shared_ptr<Node> node = std::move(list.back());
    list.pop_back();
    node.reset();  // pushes its own producers
  }
  waiting = nullptr;
}

}  // namespace

Node::~Node() { destroy_iteratively(edges); }

void Node::release_saved() {
  released = true;
  saved_inputs.clear();
  saved_outputs.clear();
}

std::shared_ptr<Node> producer_of(const Tensor& tensor) {
  return std::static_pointer_cast<Node>(tensor.body()->producer);
}

}  // namespace brim::autograd
