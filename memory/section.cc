#include "brim/memory/section.h"

#include <fmt/format.h>

namespace brim::memory {

std::string to_string(const Section& section) {
  constexpr const char* kNames[] = {"first micro-step", "micro-step", "update", "evaluation",
                                    "other"};
  const char* name = kNames[static_cast<int>(section.kind)];
  return section.samples == 0 ? name : fmt::format("{} of {}", name, section.samples);
}

}  // namespace brim::memory
