#include "brim/memory/fetch_name.h"

#include <mutex>
#include <string>
#include <unordered_set>

namespace brim::memory {

const char* fetch_name(std::string_view op) {
  static auto* mutex = new std::mutex;
  static auto* names = new std::unordered_set<std::string>;
  std::string name(kFetch);
  if (!op.empty()) name.append(" ").append(op);
  std::lock_guard lock(*mutex);
  return names->insert(std::move(name)).first->c_str();
}

std::optional<std::string_view> fetched_op(std::string_view name) {
  if (!name.starts_with(kFetch)) return std::nullopt;
  name.remove_prefix(kFetch.size());
  if (name.empty()) return name;
  return name.front() == ' ' ? std::optional(name.substr(1)) : std::nullopt;
}

}  // namespace brim::memory
