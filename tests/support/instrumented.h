// Whether the sanitizers watch: all is five times as slow then, and what repeats the same code on
// more models, budgets or steps finds nothing that once does not find.
#pragma once

#include <cstdlib>

namespace brim::testing {

/// `.bazelrc` says so to what it instruments.
inline bool is_instrumented() {
  static const bool is = std::getenv("BRIM_SKIP_SLOW") != nullptr;
  return is;
}

}  // namespace brim::testing
