#include "brim/autograd/scope.h"

#include <mutex>
#include <unordered_set>

namespace brim::autograd {

// Nodes, traces and messages point at them, and a model has few.
const std::string& kept_path(std::string path) {
  static auto* mutex = new std::mutex;
  static auto* paths = new std::unordered_set<std::string>;
  std::lock_guard lock(*mutex);
  return *paths->insert(std::move(path)).first;
}

namespace {

const std::string& root() {
  static const std::string* path = &kept_path("");
  return *path;
}

thread_local const std::string* current = nullptr;

}  // namespace

const std::string& module_path() { return current == nullptr ? root() : *current; }

ModuleScope::ModuleScope(std::string_view name) : before_(current) {
  const std::string& outer = module_path();
  std::string path = outer;
  if (!outer.empty() && !name.empty()) path += '.';
  current = &kept_path(path.append(name));
}

ModuleScope::ModuleScope(const std::string* path) : before_(current) { current = path; }

ModuleScope::~ModuleScope() { current = before_; }

}  // namespace brim::autograd
