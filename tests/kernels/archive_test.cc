// What is installed, disassembled: AVX-512 is in the objects that hold the kernels for it and in no
// other, so that no part of a program that runs on an older machine can need it; and a processor
// that lacks what all the rest needs gets as far as saying so.
#include <doctest/doctest.h>

#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "brim/tests/support/subprocess.h"

using brim::testing::Finished;
using brim::testing::run_command;

namespace {

// The members of an archive whose instructions use a 512-bit register or a mask register, of
// those that brim compiled.
std::set<std::string> members_with_avx512(const std::string& archive) {
  Finished run = run_command("(objdump --disassemble --no-show-raw-insn " + archive +
                             " | awk '/file format/ { member = $1 } /%(zmm|k[0-7])/ { "
                             "if (!(member in seen)) print member; seen[member] = 1 }')");
  REQUIRE_MESSAGE(run.code == 0, run.err);
  std::set<std::string> members;
  std::istringstream lines(run.out);
  for (std::string member; std::getline(lines, member);)
    members.insert(member.substr(0, member.find(':')));
  return members;
}

}  // namespace

TEST_CASE("archive: AVX-512 is in the kernels for x86-64-v4 alone") {
#if defined(BRIM_X86_64_V3) && defined(BRIM_X86_64_V4)
  CHECK(members_with_avx512("libbrim.a") ==
        std::set<std::string>{"ops_x86_64_v4.o", "optim_x86_64_v4.o"});
#elif defined(BRIM_X86_64_V3)
  CHECK(members_with_avx512("libbrim.a").empty());
#else
  MESSAGE("skipped: AVX-512 in the archive (this build has kernels for x86-64-v4 alone)");
#endif
}

TEST_CASE("archive: what looks at the processor needs nothing of x86-64-v3") {
  const Finished run = run_command(
      "(objdump --no-show-raw-insn --disassemble=_ZN12_GLOBAL__N_117look_at_processorEv "
      "examples/hello | awk '/^ / { print $2 }')");
  std::istringstream used(run.out);
  // What the names begin with of what AVX adds, and BMI, LZCNT and MOVBE do.
  const std::regex added(
      "(v|andn|bextr|bls|bzhi|mulx|p(dep|ext)|rorx|s[ah][lr]x|[tl]zcnt|movbe).*");
  for (std::string instruction; std::getline(used, instruction);) {
    CAPTURE(instruction);
    CHECK_FALSE(std::regex_match(instruction, added));
  }
  CHECK(run.out.find("call\n") != std::string::npos);  // of what asks the processor
}
