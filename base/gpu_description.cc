#include "brim/base/gpu_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "brim/base/error.h"

namespace brim {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Multiprocessors, clocks and caches: NVIDIA's architecture papers of Turing (T4), GA100, Hopper,
// Ada and Blackwell, and what CUDA's deviceQuery prints of the cards; memory as CUDA reports it.
constexpr std::array kDescriptions{
    GpuDescription{"t4-16gb", "Tesla T4", 7, 5, 40, 1590, 5001, 15'642'329'088, 4 * kMiB},
    GpuDescription{"a100-80gb", "NVIDIA A100-SXM4-80GB", 8, 0, 108, 1410, 1593, 84'974'239'744,
                   40 * kMiB},
    GpuDescription{"l4-24gb", "NVIDIA L4", 8, 9, 58, 2040, 6251, 23'580'639'232, 48 * kMiB},
    GpuDescription{"h100-80gb", "NVIDIA H100 80GB HBM3", 9, 0, 132, 1980, 2619, 84'942'979'072,
                   50 * kMiB},
    GpuDescription{"h200-141gb", "NVIDIA H200", 9, 0, 132, 1980, 3201, 150'754'820'096, 60 * kMiB},
    GpuDescription{"b200-180gb", "NVIDIA B200", 10, 0, 148, 1965, 3996, 191'448'154'112,
                   126 * kMiB},
    GpuDescription{"rtx4090-24gb", "NVIDIA GeForce RTX 4090", 8, 9, 128, 2520, 10501,
                   25'386'352'640, 72 * kMiB},
};

/// What follows from the compute capability: CUDA C++ Programming Guide, "Technical Specifications
/// per Compute Capability". Shared memory in KiB.
struct Limits {
  int major, minor;
  int threads, blocks;  ///< of a multiprocessor
  int shared_of_block;  ///< where a kernel opts in
};
constexpr std::array kLimits{
    Limits{7, 5, 1024, 16, 64},  Limits{8, 0, 2048, 32, 163},  Limits{8, 9, 1536, 24, 99},
    Limits{9, 0, 2048, 32, 227}, Limits{10, 0, 2048, 32, 227},
};

const Limits& limits_of(const GpuDescription& gpu) {
  const auto found = std::ranges::find_if(kLimits, [&](const Limits& limits) {
    return limits.major == gpu.major && limits.minor == gpu.minor;
  });
  check(found != kLimits.end(), "the limits of every described GPU are known");
  return *found;
}

}  // namespace

const GpuDescription* gpu_description(std::string_view card) {
  const auto found = std::ranges::find(kDescriptions, card, &GpuDescription::card);
  return found == kDescriptions.end() ? nullptr : &*found;
}

std::string to_json(const GpuDescription& gpu) {
  const Limits& limits = limits_of(gpu);
  const bool is_turing = gpu.major == 7;
  return fmt::format(
      R"({{"deviceName": "{}", "deviceVer": {}, "driverVer": 13000, "cudaDeviceId": 0, )"
      R"("pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "multiProcessorCount": {}, )"
      R"("smClockRateKHz": {}, "memClockRateKHz": {}, "totalGlobalMem": {}, "l2CacheSize": {}, )"
      R"("warpSize": 32, "maxGridSize": [2147483647, 65535, 65535], )"
      R"("maxBlockSize": [1024, 1024, 64], "maxThreadsPerBlock": 1024, "maxThreadsPerSM": {}, )"
      R"("maxCtasPerSM": {}, "regsPerBlock": 65536, "maxRegistersPerSM": 65536, )"
      R"("maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": {}, )"
      R"("reservedSharedMemoryPerBlock": {}}})",
      gpu.name, 100 * gpu.major + 10 * gpu.minor, gpu.multiprocessors, 1000 * gpu.clock_mhz,
      1000 * gpu.memory_clock_mhz, gpu.memory, gpu.l2_cache, limits.threads, limits.blocks,
      1024 * limits.shared_of_block, is_turing ? 0 : 1024);
}

}  // namespace brim
