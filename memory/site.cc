#include "brim/memory/site.h"

namespace brim::memory {
namespace {
thread_local Site current;
thread_local uint64_t runs = 0;
}  // namespace

const std::string& Site::path() const {
  static const auto* root = new std::string;
  return module == nullptr ? *root : *module;
}

const Site& current_site() { return current; }

SiteScope::SiteScope(const Site& site) : before_(current) {
  current = site;
  current.run = ++runs;
}

SiteScope::~SiteScope() { current = before_; }

}  // namespace brim::memory
