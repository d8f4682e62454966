#include "brim/base/instructions.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "brim/base/error.h"

#if !defined(BRIM_X86_64_V3) && !defined(BRIM_X86_64_V4)
#error "bazel/brim.bzl says which instruction sets there are kernels for"
#endif

namespace {

// In instructions that every x86-64 processor has. Feature by feature, as clang knows the levels'
// names from 18 on; of v3, those that none of its other parts comes without.
#define BRIM_FOR_ANY_PROCESSOR [[gnu::target("arch=x86-64")]]

BRIM_FOR_ANY_PROCESSOR bool has_x86_64_v3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
[[maybe_unused]] BRIM_FOR_ANY_PROCESSOR bool has_x86_64_v4() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

// Before anything else of a program's own: a processor that lacks what all other code is compiled
// with would end it without a word.
[[gnu::constructor(101)]] BRIM_FOR_ANY_PROCESSOR void look_at_processor() {
  __builtin_cpu_init();
#ifdef BRIM_X86_64_V3
  if (has_x86_64_v3()) return;
  constexpr char kLine[] =
      "brim: this processor lacks a part of x86-64-v3 (AVX2, FMA, BMI), which brim needs\n";
#else
  if (has_x86_64_v3() && has_x86_64_v4()) return;
  constexpr char kLine[] =
      "brim: this processor lacks AVX-512 (x86-64-v4), for which alone this program was compiled; "
      "compile it here, or with --define=brim_kernels=all\n";
#endif
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kLine, sizeof kLine - 1);
  _exit(1);
}

}  // namespace

namespace brim {

std::string_view to_string(Instructions instructions) {
  return instructions == Instructions::x86_64_v4 ? "x86-64-v4" : "x86-64-v3";
}

Instructions best_instructions() {
#if defined(BRIM_X86_64_V3) && defined(BRIM_X86_64_V4)
  return has_x86_64_v4() ? Instructions::x86_64_v4 : Instructions::x86_64_v3;
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
