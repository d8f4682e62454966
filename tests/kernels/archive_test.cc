// The installed archive, disassembled: AVX-512 is in the objects that hold the kernels for it and
// in no other, so that no part of a program that runs on an older machine can need it.
#include <doctest/doctest.h>

#include <set>
#include <sstream>
#include <string>

#include "brim/base/instructions.h"
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
  if (brim::least_instructions() == brim::best_instructions()) {
    MESSAGE("skipped: AVX-512 in the archive (this build or this processor has one set alone)");
    return;
  }
  CHECK(members_with_avx512("libbrim.a") ==
        std::set<std::string>{"ops_x86_64_v4.o", "optim_x86_64_v4.o"});
}
