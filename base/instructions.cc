#include "brim/base/instructions.h"

#include <cstdio>
#include <cstdlib>

#include "brim/base/error.h"

namespace brim {

std::string_view to_string(Instructions instructions) {
  return instructions == Instructions::x86_64_v4 ? "x86-64-v4" : "x86-64-v3";
}

Instructions best_instructions() {
#ifdef BRIM_X86_64_V4
  if (__builtin_cpu_supports("x86-64-v4")) return Instructions::x86_64_v4;
#endif
  return Instructions::x86_64_v3;
}

Instructions choose_instructions(std::string_view wanted, Instructions best) {
  if (wanted.empty()) return best;
  for (Instructions known : {Instructions::x86_64_v3, Instructions::x86_64_v4})
    if (wanted == to_string(known)) {
      expect<ValueError>(known <= best, "BRIM_INSTRUCTIONS",
                         "expected at most {}, which this processor and this build have, got {}",
                         to_string(best), wanted);
      return known;
    }
  raise<ValueError>("BRIM_INSTRUCTIONS", "expected x86-64-v3 or x86-64-v4, got {}", wanted);
}

Instructions instructions() {
  static const Instructions chosen = [] {
    const char* wanted = std::getenv("BRIM_INSTRUCTIONS");
    try {
      return choose_instructions(wanted == nullptr ? "" : wanted, best_instructions());
    } catch (const ValueError& error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::_Exit(1);
    }
  }();
  return chosen;
}

}  // namespace brim
