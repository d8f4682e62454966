#include "brim/train/numerics_watch.h"

#include <algorithm>
#include <string_view>

#include "brim/autograd/node.h"
#include "brim/core/transfer.h"

namespace brim {
namespace {

/// Also by way of autocast's copy of it.
bool leads_to_leaf(const autograd::Edge& edge) {
  if (edge.leaf != nullptr) return true;
  if (edge.node == nullptr || std::string_view(edge.node->op->name()) != "cast") return false;
  return edge.node->edges.front().leaf != nullptr;
}

WatchedValues& find_or_add(std::vector<WatchedValues>& all, const std::string& module,
                           std::string_view op, WatchedKind kind) {
  auto found = std::ranges::find_if(all, [&](const WatchedValues& one) {
    return one.kind == kind && one.op == op && one.module == module;
  });
  if (found != all.end()) return *found;
  // Beside the same op's others: backward comes last.
  auto place = std::find_if(all.rbegin(), all.rend(), [&](const WatchedValues& one) {
                 return one.op == op && one.module == module && one.kind < kind;
               }).base();
  if (place == all.begin()) place = all.end();
  return *all.insert(place, {.module = module, .op = std::string(op), .kind = kind});
}

}  // namespace

const char* to_string(WatchedKind kind) {
  switch (kind) {
    case WatchedKind::activations:
      return "activations";
    case WatchedKind::gradients:
      return "gradients";
    case WatchedKind::parameter_gradients:
      return "parameter gradients";
  }
  return "";
}

class NumericsWatch::Scope::Observer final : public autograd::OpObserver {
 public:
  void ran(const autograd::OpEvent& event) override {
    // What is made again was seen, and a cast's values are those of its input.
    if (event.phase == autograd::Phase::recompute) return;
    if (std::string_view(event.op.name()) == "cast") return;
    if (event.phase == autograd::Phase::forward) return forward(event);
    for (size_t i = 0; i < event.outputs.size(); ++i)
      add(event,
          leads_to_leaf(event.node->edges[i]) ? WatchedKind::parameter_gradients
                                              : WatchedKind::gradients,
          event.outputs[i]);
    if (event.factors != nullptr)
      add(event, WatchedKind::parameter_gradients, factored_gradient(event));
  }
  const std::vector<WatchedValues>& seen() const { return seen_; }

 private:
  void forward(const autograd::OpEvent& event) {
    const auto visible = static_cast<size_t>(event.op.visible_outputs());
    const std::vector<int> statistics = event.op.anchors();
    for (size_t i = 0; i < std::min(visible, event.outputs.size()); ++i)
      if (i == 0 || std::ranges::count(statistics, static_cast<int>(i)) == 0)
        add(event, WatchedKind::activations, event.outputs[i]);
  }
  void add(const autograd::OpEvent& event, WatchedKind kind, const Tensor& tensor) {
    if (!tensor.defined() || !is_floating(tensor.dtype()) || tensor.device().is_meta()) return;
    // To make a view's elements neighbours on a GPU would take bytes there; what it is of was seen.
    if (tensor.device().is_cuda() && !tensor.is_contiguous()) return;
    find_or_add(seen_, event.module, event.op.name(), kind).exponents.add(staged_on_host(tensor));
  }

  std::vector<WatchedValues> seen_;
};

NumericsWatch::NumericsWatch(const NumericsWatchOptions& options) : options_(options) {
  expect<ValueError>(options.every >= 1, "watch",
                     "expected to look at each update or fewer, got {}", options.every);
}

void NumericsWatch::add(int64_t step, double scale, const std::vector<WatchedValues>& seen) {
  for (const WatchedValues& one : seen)
    find_or_add(values_, one.module, one.op, one.kind).exponents.add(one.exponents);
  least_scale_ = steps_.empty() ? scale : std::min(least_scale_, scale);
  most_scale_ = steps_.empty() ? scale : std::max(most_scale_, scale);
  steps_.push_back(step);
}

NumericsWatch::Scope::Scope(NumericsWatch* watch, int64_t step, double scale)
    : watch_(watch), step_(step), scale_(scale) {
  if (watch != nullptr && watch->is_due(step)) observer_ = std::make_unique<Observer>();
}

NumericsWatch::Scope::~Scope() = default;

void NumericsWatch::Scope::keep() {
  if (observer_ == nullptr) return;
  watch_->add(step_, scale_, observer_->seen());
  observer_.reset();
}

}  // namespace brim
