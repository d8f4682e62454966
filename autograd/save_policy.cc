#include "brim/autograd/save_policy.h"

namespace brim::autograd {
namespace {

thread_local SavePolicy* current = nullptr;

}  // namespace

SavePolicy* save_policy() { return current; }

SavePolicyScope::SavePolicyScope(SavePolicy* policy) : before_(current) { current = policy; }
SavePolicyScope::~SavePolicyScope() { current = before_; }

}  // namespace brim::autograd
