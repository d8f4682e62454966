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

std::string call_of(const std::string& path, std::string_view op) {
  return path + ":" + std::string(op);
}

}  // namespace

RandomScope::RandomScope(uint64_t seed, uint64_t update, uint64_t first_sample, const double* live)
    : before_(current), seed_(seed), update_(update), first_sample_(first_sample), live_(live) {
  current = this;
}

RandomScope::~RandomScope() {
  if (current == this) current = before_;
}

void RandomScope::give_back(const std::string& path, std::string_view op) noexcept {
  --ordinals_[call_of(path, op)];
}

RandomAddress RandomScope::next(const std::string& path, std::string_view op) {
  const std::string call = call_of(path, op);
  const uint64_t ordinal = ordinals_[call]++, hash = hash_of(call);
  return {call_key(seed_, update_, hash, ordinal),
          first_sample_,
          {.update = live_, .seed = seed_, .call = hash, .ordinal = ordinal}};
}

namespace {

RandomScope& present_scope() { return current != nullptr ? *current : *default_scope(); }

}  // namespace

RandomAddress next_random_address(std::string_view op) {
  return present_scope().next(module_path(), op);
}

void give_back_random_address(std::string_view op) noexcept {
  present_scope().give_back(module_path(), op);
}

void manual_seed(uint64_t seed) {
  RandomScope* entered = current;
  default_scope() = std::make_unique<RandomScope>(seed, 0);
  current = entered;
}

}  // namespace brim::autograd
