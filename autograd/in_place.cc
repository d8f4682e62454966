#include "brim/autograd/in_place.h"

#include <algorithm>

#include "brim/autograd/node.h"
#include "brim/autograd/save_policy.h"

namespace brim::autograd {
namespace {

thread_local bool enabled_here = false;

// Since its producer made it: running that again would not give it.
bool was_written_to(const Tensor& tensor) {
  const std::shared_ptr<Node> producer = producer_of(tensor);
  if (producer == nullptr) return false;
  const auto& value = producer->values[static_cast<size_t>(tensor.body()->output)];
  return value != nullptr && !value->is_of(tensor);
}

bool is_given_up(const Tensor& tensor) {
  return tensor.defined() && tensor.storage()->category() == memory::Category::activations &&
         is_unshared(tensor) && fills_storage(tensor);
}

// A leaf's values cannot be made again, which a policy may ask for.
bool may_be_lost(const Tensor& tensor) {
  if (tensor.is_leaf() && (tensor.requires_grad() || save_policy() != nullptr)) return false;
  return save_policy() == nullptr || !was_written_to(tensor);
}

template <class Allowed>
int largest_overwritable(const Op& op, const Tensors& inputs, const Allowed& is_allowed) {
  int best = -1;
  for (int i : op.overwrites()) {
    if (i >= static_cast<int>(inputs.size())) continue;
    const Tensor& input = inputs[static_cast<size_t>(i)];
    if (!is_given_up(input) || !is_allowed(i, input)) continue;
    if (best < 0 || input.numel() > inputs[static_cast<size_t>(best)].numel()) best = i;
  }
  return best;
}

}  // namespace

bool in_place_enabled() { return enabled_here; }
InPlaceScope::InPlaceScope(bool enabled) : before_(enabled_here) { enabled_here = enabled; }
InPlaceScope::~InPlaceScope() { enabled_here = before_; }

int input_to_overwrite(const Op& op, const Tensors& inputs, const Saves& saves) {
  return largest_overwritable(op, inputs, [&](int i, const Tensor& input) {
    return std::ranges::count(saves.inputs, i) == 0 && may_be_lost(input);
  });
}

int input_to_overwrite_again(const Op& op, const Tensors& inputs) {
  return largest_overwritable(op, inputs, [](int, const Tensor&) { return true; });
}

int input_overwritten(const ForwardContext& context, const Tensors& inputs,
                      const Tensors& outputs) {
  if (context.overwrite < 0) return -1;
  const Tensor& input = inputs[static_cast<size_t>(context.overwrite)];
  return outputs.front().storage() == input.storage() ? context.overwrite : -1;
}

}  // namespace brim::autograd
