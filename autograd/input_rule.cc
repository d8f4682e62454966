#include "brim/autograd/input_rule.h"

namespace brim::autograd {
namespace {

thread_local InputRule* rule = nullptr;

}  // namespace

InputRule* input_rule() { return rule; }
InputRuleScope::InputRuleScope(InputRule* now) : before_(rule) { rule = now; }
InputRuleScope::~InputRuleScope() { rule = before_; }

}  // namespace brim::autograd
