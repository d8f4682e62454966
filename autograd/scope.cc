#include "brim/autograd/scope.h"

#include <mutex>
#include <unordered_set>

namespace brim::autograd {
namespace {

// Paths live for ever: nodes, traces and messages point at them, and a model has few.
const std::string& intern(std::string path) {
  static auto* mutex = new std::mutex;
  static auto* paths = new std::unordered_set<std::string>;
  std::lock_guard lock(*mutex);
  return *paths->insert(std::move(path)).first;
}

const std::string& root() {
  static const std::string& path = intern("");
  return path;
}

thread_local const std::string* current = nullptr;

}  // namespace

const std::string& module_path() { return current == nullptr ? root() : *current; }

ModuleScope::ModuleScope(std::string_view name) : before_(current) {
  const std::string& outer = module_path();
  std::string path = outer;
  if (!outer.empty() && !name.empty()) path += '.';
  current = &intern(path.append(name));
}

ModuleScope::ModuleScope(const std::string* path) : before_(current) { current = path; }

ModuleScope::~ModuleScope() { current = before_; }

}  // namespace brim::autograd
