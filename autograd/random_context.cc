#include "brim/autograd/random_context.h"

#include <memory>

#include "brim/autograd/scope.h"

namespace brim::autograd {
namespace {

thread_local RandomScope* current = nullptr;

std::unique_ptr<RandomScope>& default_scope() {
  thread_local std::unique_ptr<RandomScope> scope;
  if (!scope) {
    scope = std::make_unique<RandomScope>(0, 0);
    current = nullptr;  // the default is not a scope that someone entered
  }
  return scope;
}

}  // namespace

RandomScope::RandomScope(uint64_t seed, uint64_t update, uint64_t first_sample)
    : before_(current), seed_(seed), update_(update), first_sample_(first_sample) {
  current = this;
}

RandomScope::~RandomScope() {
  if (current == this) current = before_;
}

RandomAddress RandomScope::next(const std::string& path, std::string_view op) {
  std::string call = path + ":" + std::string(op);
  uint64_t ordinal = ordinals_[call]++;
  RandomKey key = derive(derive(RandomKey{seed_}, update_), call);
  return {derive(key, ordinal), first_sample_};
}

RandomAddress next_random_address(std::string_view op) {
  RandomScope& scope = current != nullptr ? *current : *default_scope();
  return scope.next(module_path(), op);
}

void manual_seed(uint64_t seed) {
  RandomScope* entered = current;
  default_scope() = std::make_unique<RandomScope>(seed, 0);
  current = entered;
}

}  // namespace brim::autograd
