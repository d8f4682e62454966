#include "brim/autograd/fetch.h"

#include "brim/autograd/host_copy.h"
#include "brim/autograd/node.h"
#include "brim/autograd/offload.h"

namespace brim::autograd {
namespace {

thread_local FetchScope* current = nullptr;

template <class Body>
void for_each_copy(const Node& node, const Body& body) {
  for (const auto* saved : {&node.saved_inputs, &node.saved_outputs})
    for (const auto& [i, tensor] : *saved)
      if (const Value* value = tensor.value(); value != nullptr && value->copy() != nullptr)
        body(*value->copy());
}

}  // namespace

FetchScope::FetchScope() : before_(current) {
  if (Offload* engine = offload()) engine->look();
  current = this;
}

FetchScope::~FetchScope() {
  current = before_;
  for (const std::weak_ptr<HostCopy>& each : fetched_)
    if (const auto copy = each.lock()) copy->put_back();
}

void FetchScope::before(const Node& node, std::span<const Node* const> next) {
  const auto stay = [](HostCopy& copy) { copy.stay(); };
  for_each_copy(node, stay);
  for (const Node* one : next) for_each_copy(*one, stay);
  if (Offload* engine = offload()) engine->finish_sending();
  for_each_copy(node, [](HostCopy& copy) { copy.bring(); });
  for (const Node* one : next) for_each_copy(*one, [](HostCopy& copy) { copy.fetch_ahead(); });
}

void FetchScope::note(const std::shared_ptr<HostCopy>& copy) {
  if (current != nullptr) current->fetched_.push_back(copy);
}

}  // namespace brim::autograd
