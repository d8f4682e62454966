#include "brim/autograd/call_again.h"

#include "brim/autograd/save.h"

namespace brim::autograd {

Tensor result_again(const std::shared_ptr<Node>& node, const Tensors& inputs) {
  const std::shared_ptr<Value>& value = node->values.front();
  Tensor result;
  if (value != nullptr && value->is_resident()) {
    result = value->get(node->op->name());
  } else {
    memory::SiteScope site(node->site(memory::Phase::forward));
    result = node->op->forward(inputs, node->context).front();
    if (value != nullptr) value->renew(result);
  }
  result.body()->producer = node;
  return result;
}

}  // namespace brim::autograd
