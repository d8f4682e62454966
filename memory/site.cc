#include "brim/memory/site.h"

#include <fmt/format.h>

#include <string_view>

namespace brim::memory {
namespace {
thread_local Site current;
thread_local uint64_t runs = 0;
}  // namespace

const std::string& Site::path() const {
  static const auto* root = new std::string;
  return module == nullptr ? *root : *module;
}

std::string to_string(const Site& site) {
  std::string text = site.path();
  auto add = [&](std::string_view before, const std::string& part) {
    if (!text.empty()) text += before;
    text += part;
  };
  if (*site.op != '\0') add(": ", site.op);
  if (*site.file != '\0') add(" at ", fmt::format("{}:{}", site.file, site.line));
  if (site.phase != Phase::other) add(", ", to_string(site.phase));
  return text;
}

const Site& current_site() { return current; }

SiteScope::SiteScope(const Site& site) : before_(current) {
  current = site;
  current.run = ++runs;
}

SiteScope::~SiteScope() { current = before_; }

}  // namespace brim::memory
