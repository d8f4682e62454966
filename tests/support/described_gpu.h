// A GPU that need not be there, as cuDNN takes one described: its engines are chosen for it as for
// a real one. For what runs on a GPU there is the emulator (cuda_emulator/).
#pragma once

#include <string>

namespace brim::testing {

// An H200, by the numbers of its data sheet and of CUDA's programming guide for compute
// capability 9.0.
inline const std::string kDescribedGpu = R"({
  "deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
  "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "multiProcessorCount": 132,
  "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "totalGlobalMem": 150754820096,
  "l2CacheSize": 62914560, "warpSize": 32, "maxGridSize": [2147483647, 65535, 65535],
  "maxBlockSize": [1024, 1024, 64], "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
  "maxCtasPerSM": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "reservedSharedMemoryPerBlock": 1024})";

}  // namespace brim::testing
