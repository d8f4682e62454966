// No kernel for GPUs spills registers to memory, and none takes so many that a block of its threads
// would not fit a multiprocessor: what ptxas said as it compiled them.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

TEST_CASE("kernel resources: registers of all kernels, without spills") {
  std::ifstream file("tests/cuda/kernel_resources.txt");
  std::string line;
  REQUIRE(std::getline(file, line));
  CHECK(line == "spilled registers architecture kernel");
  int kernels = 0;
  while (std::getline(file, line)) {
    std::istringstream row(line);
    int spilled = -1, registers = -1;
    std::string architecture;
    row >> spilled >> registers >> architecture;
    REQUIRE_MESSAGE(row, line);
    CHECK_MESSAGE(spilled == 0, line);
    // 65,536 registers for at least two blocks of 256 threads.
    CHECK_MESSAGE(registers <= 128, line);
    CHECK(architecture.starts_with("sm_"));
    ++kernels;
  }
  CHECK(kernels > 50);
}
