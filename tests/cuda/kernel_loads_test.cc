// Kernels that memory bounds read and write 16 bytes at a time, the most that a thread can, and
// their inner loops divide by nothing of 64 bits: what is in the PTX that nvcc made of them.
#include <doctest/doctest.h>

#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

struct Kernel {
  int loaded = -1, stored = -1;  // bytes at a time, at most
  int whole = -1;                // loads of 16 bytes
  int divisions = -1;
  std::string name;
};

std::vector<Kernel> all_kernels() {
  std::ifstream file("tests/cuda/kernel_loads.txt");
  std::string line;
  REQUIRE(std::getline(file, line));
  CHECK(line == "loaded stored whole divisions kernel");
  std::vector<Kernel> kernels;
  while (std::getline(file, line)) {
    std::istringstream row(line);
    Kernel& kernel = kernels.emplace_back();
    row >> kernel.loaded >> kernel.stored >> kernel.whole >> kernel.divisions;
    std::getline(row, kernel.name);
    REQUIRE_MESSAGE(!kernel.name.empty(), line);
  }
  return kernels;
}

std::vector<Kernel> kernels_like(const std::string& pattern) {
  std::vector<Kernel> found;
  for (const Kernel& kernel : all_kernels())
    if (std::regex_search(kernel.name, std::regex(pattern))) found.push_back(kernel);
  return found;
}

}  // namespace

TEST_CASE("kernel loads: packs of channels are read and written whole, in all four types") {
  for (const char* pattern :
       {"map_kernel<.*Normalize<.*ByPack", "map_kernel<.*WriteGradient<.*ByPack",
        "flat_kernel<.*MaxPool<.*Pack<", "flat_kernel<.*MaxPoolBackward<.*Pack<",
        "flat_kernel<.*AvgPool<.*Pack<", "flat_kernel<.*AvgPoolBackward<.*Pack<",
        "flat_kernel<.*AdaptivePool<.*Pack<", "flat_kernel<.*AdaptivePoolBackward<.*Pack<",
        "flat_kernel<.*GlobalPoolBackward<.*Pack<", "SweepStrip<.*Pack<.*3, 1>",
        "SweepStrip<.*Pack<.*3, 2>", "SweepStrip<.*Pack<.*5, 1>", "SweepStrip<.*Pack<.*5, 2>",
        "AnyWindow<.*Pack<", "Collect<.*Pack<.*3, 2>", "Collect<.*Pack<.*5, 2>"}) {
    CAPTURE(pattern);
    const std::vector<Kernel> kernels = kernels_like(pattern);
    CHECK(kernels.size() == 4);
    for (const Kernel& kernel : kernels) {
      CHECK_MESSAGE(kernel.loaded == 16, kernel.name);
      CHECK_MESSAGE(kernel.stored == 16, kernel.name);
    }
  }
  for (const char* pattern :
       {"reduce_packs_kernel<.*Statistics<", "reduce_packs_kernel<.*GradientSums<",
        "reduce_packs_kernel<.*GlobalPool<", "weight_kernel<.*Pack<.*3, 1>",
        "weight_kernel<.*Pack<.*3, 2>", "weight_kernel<.*Pack<.*5, 1>",
        "weight_kernel<.*Pack<.*5, 2>"}) {
    CAPTURE(pattern);
    const std::vector<Kernel> kernels = kernels_like(pattern);
    CHECK(kernels.size() == 4);
    for (const Kernel& kernel : kernels) CHECK_MESSAGE(kernel.loaded == 16, kernel.name);
  }
}

TEST_CASE(
    "kernel loads: batch norm reads what it normalises in packs, and not its coefficients alone") {
  // Loads of 16 bytes: numbers of each channel (in float32, two loads for a pack of halves), and
  // buffers. Statistics: where they count from, and four packs at a time.
  struct Case {
    const char* pattern;
    int coefficients, buffers;
  };
  for (const auto& [pattern, coefficients, buffers] :
       {Case{"map_kernel<.*Normalize<.*ByPack", 3, 2},
        Case{"map_kernel<.*WriteGradient<.*ByPack", 5, 4},
        Case{"reduce_packs_kernel<.*GradientSums<", 3, 4},
        Case{"reduce_packs_kernel<.*Statistics<", 0, 5}}) {
    CAPTURE(pattern);
    for (const Kernel& kernel : kernels_like(pattern)) {
      const bool is_half = kernel.name.find("Float16") != std::string::npos;
      CHECK_MESSAGE(kernel.whole >= (is_half ? 2 : 1) * coefficients + buffers, kernel.name);
    }
  }
}

TEST_CASE("kernel loads: no window is looked for by a division of 64 bits for each of its inputs") {
  const std::vector<Kernel> kernels = kernels_like("(Max|Avg|Adaptive|Global)Pool(Backward)?<");
  CHECK(kernels.size() > 60);
  for (const Kernel& kernel : kernels) CHECK_MESSAGE(kernel.divisions == 0, kernel.name);
}

TEST_CASE("kernel loads: strided loops and depthwise sums divide by 32 bits for each element") {
  for (const auto& [pattern, least] :
       {std::pair{"strided_kernel<", 150u}, std::pair{"weight_kernel<", 32u}}) {
    const std::vector<Kernel> kernels = kernels_like(pattern);
    CHECK(kernels.size() >= least);
    for (const Kernel& kernel : kernels) CHECK_MESSAGE(kernel.divisions == 0, kernel.name);
  }
}
