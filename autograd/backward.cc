#include "brim/autograd/backward.h"

#include <algorithm>
#include <deque>
#include <ranges>

#include "brim/autograd/factors_taker.h"
#include "brim/autograd/fetch.h"
#include "brim/autograd/last_uses.h"
#include "brim/autograd/offload.h"
#include "brim/autograd/reading.h"
#include "brim/autograd/rebuild.h"

namespace brim {
namespace autograd {
namespace {

void add_gradient(Tensor& sum, Tensor grad) {
  if (!sum.defined()) {
    sum = std::move(grad);
    return;
  }
  if (!is_unshared(sum)) sum = clone(sum);
  accumulate_into(sum, grad);
}

// A gradient from outside: kernels believe what they are given.
void require_like(const char* who, const Tensor& grad, const Shape& shape, Dtype dtype,
                  Device device) {
  expect<ShapeError>(grad.shape() == shape, who, "expected a gradient of shape {}, got {}", shape,
                     grad.shape());
  expect<DtypeError>(grad.dtype() == dtype, who, "expected a gradient of {}, got {}", dtype,
                     grad.dtype());
  expect<DeviceError>(grad.device() == device, who, "expected a gradient on {}, got {}", device,
                      grad.device());
}

Tensor run_hook(const Hook& hook, Tensor grad) {
  Tensor replaced = hook(grad);
  if (!replaced.defined()) return grad;
  require_like("hook", replaced, grad.shape(), grad.dtype(), grad.device());
  return replaced;
}

// One backward pass. What it holds in nodes and new leaf gradients is let go when it fails.
class Engine final : private FactorsTaker {
 public:
  explicit Engine(const BackwardOptions& options) : options_(options) {}
  ~Engine() override {
    for (const auto& node : queue_) forget(*node);
    if (finished_) return;
    for (const auto& leaf : new_leaves_) leaf->grad = Tensor();
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void run(const Edge& root, Tensor grad) {
    if (options_.on_leaf_complete) leaves_ = last_uses(root);
    send(root, std::move(grad));
    while (!queue_.empty()) {
      complete_before(queue_.front()->sequence);
      // A node's consumers were all recorded after it: the latest node has all its gradients.
      std::ranges::pop_heap(queue_, later);
      std::shared_ptr<Node> node = std::move(queue_.back());
      queue_.pop_back();
      step(*node);
    }
    complete_before(kEnd);
    for (auto& [leaf, sum] : hooked_) finish_hooked(leaf, std::move(sum));
    finished_ = true;
    rebuilt_.keep();
  }

 private:
  static bool later(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) {
    return a->sequence < b->sequence;
  }
  static void forget(Node& node) {
    node.grads.clear();
    node.queued = false;
  }

  void step(Node& node) {
    Tensors grads = std::move(node.grads);
    forget(node);
    expect<AutogradError>(!node.released, node.op->name(),
                          "the graph was already freed by an earlier backward; ask for "
                          "retain_graph to go through it twice");
    for (const auto& [output, hook] : node.hooks) {
      Tensor& grad = grads[static_cast<size_t>(output)];
      if (grad.defined()) grad = run_hook(hook, std::move(grad));
    }
    if (offload() != nullptr) fetched_.before(node, next_after(node));
    ReadingScope reading(node);
    Tensors sources = node.make_saved_resident();
    ModuleScope module(node.module);
    memory::SiteScope site(node.site(memory::Phase::backward));
    BackwardCall call(node, grads, options_.retain_graph, may_take_factors() ? this : nullptr);
    factored_ = -1;
    Tensors input_grads = node.op->backward(call);
    sources.clear();
    notify({.op = *node.op,
            .phase = Phase::backward,
            .inputs = grads,
            .outputs = input_grads,
            .context = node.context,
            .where = node.where,
            .module = *node.module,
            .node = &node,
            .factored = factored_,
            .factors = factored_ < 0 ? nullptr : &factors_.back().second});
    grads.clear();
    if (!options_.retain_graph) node.release_saved();
    distribute(node, std::move(input_grads));
  }

  // The nodes that run after `node`, if a gradient flows along each edge.
  std::vector<const Node*> next_after(const Node& node) const {
    std::vector<const Node*> open, next;
    const auto add_edges = [&](const Node& from) {
      for (const Edge& edge : from.edges)
        if (edge.node != nullptr) open.push_back(edge.node.get());
    };
    for (const auto& queued : queue_) open.push_back(queued.get());
    add_edges(node);
    while (next.size() < FetchScope::kNodesAhead && !open.empty()) {
      next.push_back(*std::ranges::max_element(open, {}, &Node::sequence));
      std::erase(open, next.back());
      add_edges(*next.back());
    }
    return next;
  }

  void distribute(const Node& node, Tensors grads) {
    check(grads.size() == node.edges.size(), "backward returns one gradient per input");
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!node.edges[i].wanted() || !grads[i].defined()) continue;
      const TensorInfo& input = node.inputs[i];
      expect<InternalError>(grads[i].shape() == input.shape && grads[i].dtype() == input.dtype,
                            node.op->name(),
                            "backward made a gradient {} of {} for input {}, {} of {}",
                            grads[i].shape(), grads[i].dtype(), i, input.shape, input.dtype);
      send(node.edges[i], std::move(grads[i]));
    }
  }

  void send(const Edge& edge, Tensor grad) {
    if (edge.node == nullptr)
      return edge.leaf->hooks ? add_to_hooked(edge.leaf, std::move(grad))
                              : add_to_leaf(edge.leaf, std::move(grad));
    Node& node = *edge.node;
    if (!node.queued) {
      node.grads.resize(static_cast<size_t>(node.op->visible_outputs()));
      node.queued = true;
      queue_.push_back(edge.node);
      std::ranges::push_heap(queue_, later);
    }
    add_gradient(node.grads[static_cast<size_t>(edge.output)], std::move(grad));
  }

  // The walk goes on at `next`. Leaves that no node from there on leads to have all that they get,
  // also where no gradient flowed to the last of their nodes.
  void complete_before(uint64_t next) {
    while (used_ < leaves_.size() && leaves_[used_].sequence > next)
      read_.push_back(std::move(leaves_[used_++].leaf));
    // A value may be read by nodes that have no edge to its leaf: by way of `detach`, say.
    std::erase_if(read_, [&](const std::shared_ptr<TensorBody>& leaf) {
      if (next != kEnd && leaf->storage->tape_holds() > 0) return false;
      complete(leaf);
      return true;
    });
  }

  void complete(const std::shared_ptr<TensorBody>& leaf) {
    auto hooked = std::ranges::find_if(hooked_, [&](const auto& one) { return one.first == leaf; });
    if (hooked != hooked_.end()) {
      finish_hooked(leaf, std::move(hooked->second));
      hooked_.erase(hooked);
    }
    if (leaf->grad.defined()) return options_.on_leaf_complete(Tensor(leaf));
    auto factored =
        std::ranges::find_if(factors_, [&](const auto& one) { return one.first == leaf; });
    if (factored == factors_.end()) return;
    const GradientFactors factors = std::move(factored->second);
    factors_.erase(factored);
    options_.on_leaf_factors(Tensor(leaf), factors);
  }

  bool may_take_factors() const {
    return options_.on_leaf_complete && options_.takes_factors && options_.on_leaf_factors;
  }

  bool takes_factors(const Node& node, int i) const override {
    const auto& leaf = node.edges[static_cast<size_t>(i)].leaf;
    if (leaf == nullptr || options_.retain_graph || leaf->hooks != nullptr || leaf->grad.defined())
      return false;
    const auto open = open_leaves();
    const auto use = std::ranges::find(open, leaf, &LastUse::leaf);
    check(use != open.end(), "a leaf is open until its last node has run");
    return use->uses == 1 && options_.takes_factors(Tensor(leaf));
  }

  // What is a leaf's own may be overwritten before it is read.
  void take_factors(const Node& node, int i, GradientFactors factors) override {
    for (Tensor* factor : {&factors.a, &factors.b})
      if (is_of_a_leaf(*factor)) *factor = clone(*factor);
    factors_.emplace_back(node.edges[static_cast<size_t>(i)].leaf, std::move(factors));
    factored_ = i;
  }

  bool is_of_a_leaf(const Tensor& tensor) const {
    const auto has_it = [&](const std::shared_ptr<TensorBody>& leaf) {
      return leaf->storage == tensor.storage();
    };
    return std::ranges::any_of(read_, has_it) ||
           std::ranges::any_of(open_leaves(), has_it, &LastUse::leaf);
  }

  // Those that nodes which are left lead to, among them each that the current one has an edge to.
  std::ranges::subrange<std::deque<LastUse>::const_iterator> open_leaves() const {
    return {leaves_.begin() + static_cast<int64_t>(used_), leaves_.end()};
  }

  // Hooks see the complete gradient: of leaves that have some, it is summed until the end.
  void add_to_hooked(const std::shared_ptr<TensorBody>& leaf, Tensor grad) {
    for (auto& [known, sum] : hooked_)
      if (known == leaf) return add_gradient(sum, std::move(grad));
    hooked_.emplace_back(leaf, std::move(grad));
  }

  void finish_hooked(const std::shared_ptr<TensorBody>& leaf, Tensor grad) {
    for (const Hook& hook : *std::static_pointer_cast<Hooks>(leaf->hooks))
      grad = run_hook(hook, std::move(grad));
    add_to_leaf(leaf, std::move(grad));
  }

  void add_to_leaf(const std::shared_ptr<TensorBody>& leaf, Tensor grad) {
    if (leaf->grad.defined()) return accumulate_into(leaf->grad, grad);
    // A leaf's gradient is its own: not a view of another's, not shared between two leaves.
    if (!is_unshared(grad) || !fills_storage(grad)) {
      memory::CategoryScope category(memory::Category::gradients);
      grad = clone(grad);
    }
    grad.storage()->set_category(memory::Category::gradients);
    leaf->grad = std::move(grad);
    new_leaves_.push_back(leaf);
  }

  static constexpr uint64_t kEnd = 0;  // sequence numbers begin at 1

  const BackwardOptions& options_;
  RebuildScope rebuilt_;
  FetchScope fetched_;
  bool finished_ = false;
  std::deque<std::shared_ptr<Node>> queue_;  // a heap; deque: no large blocks from malloc
  std::deque<std::shared_ptr<TensorBody>> new_leaves_;
  std::deque<std::pair<std::shared_ptr<TensorBody>, Tensor>> hooked_;

  // Empty unless someone is told of complete leaves.
  std::deque<LastUse> leaves_;
  size_t used_ = 0;  // how many of them no node that is left leads to
  std::deque<std::pair<std::shared_ptr<TensorBody>, GradientFactors>> factors_;  // not taken yet
  int factored_ = -1;  // the input of the current node whose gradient came so last
  std::deque<std::shared_ptr<TensorBody>> read_;  // of those, the ones with values still to be read
};

}  // namespace
}  // namespace autograd

void backward(const Tensor& result, BackwardOptions options) {
  expect<AutogradError>(result.requires_grad(), "backward",
                        "the result of shape {} was not computed from anything that wants a "
                        "gradient",
                        result.shape());
  Tensor grad = std::move(options.grad);
  if (grad.defined()) {
    autograd::require_like("backward", grad, result.shape(), result.dtype(), result.device());
  } else {
    expect<ShapeError>(result.numel() == 1, "backward",
                       "a result of shape {} needs a gradient to start from", result.shape());
    grad = ones(result.shape(), {.dtype = result.dtype(), .device = result.device()});
  }
  autograd::Edge root{autograd::producer_of(result), result.body()->output, nullptr};
  if (root.node == nullptr) root.leaf = result.shared_body();
  autograd::NoGradScope no_grad;
  autograd::Engine(options).run(root, std::move(grad));
}

void register_hook(const Tensor& tensor, autograd::Hook hook) {
  expect<AutogradError>(tensor.requires_grad(), "hook",
                        "a tensor of shape {} that wants no gradient has none to see",
                        tensor.shape());
  if (auto node = autograd::producer_of(tensor)) {
    node->hooks.emplace_back(tensor.body()->output, std::move(hook));
    return;
  }
  auto& slot = tensor.body()->hooks;
  if (slot == nullptr) slot = std::make_shared<autograd::Hooks>();
  std::static_pointer_cast<autograd::Hooks>(slot)->push_back(std::move(hook));
}

}  // namespace brim
