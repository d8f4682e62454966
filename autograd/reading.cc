#include "brim/autograd/reading.h"

#include <algorithm>

#include "brim/autograd/node.h"

namespace brim::autograd {
namespace {

thread_local ReadingScope* innermost = nullptr;

}  // namespace

ReadingScope::ReadingScope(const Node& node) : node_(node), before_(innermost) { innermost = this; }

ReadingScope::~ReadingScope() { innermost = before_; }

bool ReadingScope::reads(const Value& value) {
  auto is_value = [&](const auto& saved) { return saved.second.value() == &value; };
  for (const ReadingScope* scope = innermost; scope != nullptr; scope = scope->before_)
    if (std::ranges::any_of(scope->node_.saved_inputs, is_value) ||
        std::ranges::any_of(scope->node_.saved_outputs, is_value))
      return true;
  return false;
}

}  // namespace brim::autograd
