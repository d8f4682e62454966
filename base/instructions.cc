#include "brim/base/instructions.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "brim/base/error.h"

namespace {

// Before anything else of a program's own, in instructions that every x86-64 processor has: a
// processor that lacks what all other code is compiled with would end it at one of those, without
// a word.
[[gnu::constructor(101), gnu::target("arch=x86-64")]] void look_at_processor() {
  __builtin_cpu_init();
#ifdef BRIM_X86_64_V3
  if (__builtin_cpu_supports("x86-64-v3")) return;
  constexpr char kLine[] =
      "brim: this processor lacks AVX2 and FMA (x86-64-v3), which brim needs\n";
#else
  if (__builtin_cpu_supports("x86-64-v4")) return;
  constexpr char kLine[] =
      "brim: this processor lacks AVX-512 (x86-64-v4), for which alone this program was compiled; "
      "compile it here, or with --define=brim_kernels=all\n";
#endif
  if (write(STDERR_FILENO, kLine, sizeof kLine - 1) < 0) _exit(2);
  _exit(1);
}

}  // namespace

namespace brim {

std::string_view to_string(Instructions instructions) {
  return instructions == Instructions::x86_64_v4 ? "x86-64-v4" : "x86-64-v3";
}

Instructions best_instructions() {
#if defined(BRIM_X86_64_V3) && defined(BRIM_X86_64_V4)
  return __builtin_cpu_supports("x86-64-v4") ? Instructions::x86_64_v4 : Instructions::x86_64_v3;
#else
  return least_instructions();
#endif
}

Instructions least_instructions() {
#ifdef BRIM_X86_64_V3
  return Instructions::x86_64_v3;
#else
  return Instructions::x86_64_v4;
#endif
}

Instructions choose_instructions(std::string_view wanted, Instructions best, Instructions least) {
  if (wanted.empty()) return best;
  for (Instructions known : {Instructions::x86_64_v3, Instructions::x86_64_v4})
    if (wanted == to_string(known)) {
      expect<ValueError>(known <= best, "BRIM_INSTRUCTIONS",
                         "expected at most {}, which this processor and this build have, got {}",
                         to_string(best), wanted);
      expect<ValueError>(known >= least, "BRIM_INSTRUCTIONS",
                         "this build has kernels for {} alone, got {}", to_string(least), wanted);
      return known;
    }
  raise<ValueError>("BRIM_INSTRUCTIONS", "expected x86-64-v3 or x86-64-v4, got {}", wanted);
}

Instructions instructions() {
  static const Instructions chosen = [] {
    const char* wanted = std::getenv("BRIM_INSTRUCTIONS");
    try {
      return choose_instructions(wanted == nullptr ? "" : wanted, best_instructions(),
                                 least_instructions());
    } catch (const ValueError& error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::_Exit(1);
    }
  }();
  return chosen;
}

}  // namespace brim
