// No kernel for GPUs spills registers to memory, and none takes so many that a block of its threads
// would not fit a multiprocessor; few have a stack: what ptxas said as it compiled them.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace {

// Arrays that are indexed at run time lie in a thread's stack: the words that a draw chooses from
// by the number of its element (random numbers; stochastic rounding, of optimizers), with what a
// cosine of a large number wants, and the numbers of an update, one of which each thread writes.
bool may_have_stack(const std::string& kernel) {
  for (const char* name : {"::GenerateElement<", "::AdamW<", "::Sgd<", "::Write>"})
    if (kernel.find(name) != std::string::npos) return true;
  return false;
}

/// 65,536 for at least two blocks: of 256 threads, or of 192 that each sum up a pack of channels.
int most_registers(const std::string& kernel) {
  return kernel.find("::weight_kernel<brim::cuda::Pack<") != std::string::npos ? 168 : 128;
}

}  // namespace

TEST_CASE("kernel resources: registers of all kernels, without spills") {
  std::ifstream file("tests/cuda/kernel_resources.txt");
  std::string line;
  REQUIRE(std::getline(file, line));
  CHECK(line == "spilled stack registers architecture kernel");
  int kernels = 0;
  while (std::getline(file, line)) {
    std::istringstream row(line);
    int spilled = -1, stack = -1, registers = -1;
    std::string architecture;
    row >> spilled >> stack >> registers >> architecture;
    REQUIRE_MESSAGE(row, line);
    CHECK_MESSAGE(spilled == 0, line);
    CHECK_MESSAGE(stack <= (may_have_stack(line) ? 64 : 0), line);
    CHECK_MESSAGE(registers <= most_registers(line), line);
    CHECK(architecture.starts_with("sm_"));
    ++kernels;
  }
  CHECK(kernels > 50);
}
