#include "brim/base/cuda/kernel_modules.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <vector>

#include "brim/base/cuda/context.h"
#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/error.h"
#include "brim/base/cuda/library.h"

namespace brim::cuda {
namespace {

struct ModuleCalls {
  decltype(cuFuncGetModule)* module_of;
  decltype(cuModuleGetFunctionCount)* count;
  decltype(cuModuleEnumerateFunctions)* enumerate;
  decltype(cuFuncLoad)* load;
};

ModuleCalls find_calls() {
  Library library("libcuda.so.1");
  ModuleCalls table{};
  library.bind(table.module_of, "cuFuncGetModule");
  library.bind(table.count, "cuModuleGetFunctionCount");
  library.bind(table.enumerate, "cuModuleEnumerateFunctions");
  library.bind(table.load, "cuFuncLoad");
  return table;
}

std::vector<CUfunction> kernels_of(const KernelModule& file, const ModuleCalls& calls) {
  cudaFunction_t one = nullptr;
  if (cudaGetFuncBySymbol(&one, file.kernel) != cudaSuccess) {
    cudaGetLastError();  // no error of anybody's
    return {};
  }
  CUmodule module = nullptr;
  unsigned count = 0;
  if (calls.module_of(&module, one) != CUDA_SUCCESS || calls.count(&count, module) != CUDA_SUCCESS)
    return {};
  std::vector<CUfunction> kernels(count);
  if (calls.enumerate(kernels.data(), count, module) != CUDA_SUCCESS) return {};
  return kernels;
}

}  // namespace

std::string kernels_to_compile(Device device) {
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index),
        "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device.index),
        "cudaDeviceGetAttribute");
  constexpr int kCompiledFor[] = {BRIM_GPU_CODE};  // 90: compute capability 9.0
  std::string built_for;
  for (const int code : kCompiledFor) {
    if (code / 10 == major && code % 10 <= minor) return "";
    built_for += fmt::format("{}{}.{}", built_for.empty() ? "" : ", ", code / 10, code % 10);
  }
  return fmt::format(
      "{} is of compute capability {}.{}, and brim was built for {}: the driver compiles the "
      "kernels "
      "the first time, which takes a while; build with --config=all_gpus to have them compiled",
      device, major, minor, built_for);
}

int load_kernels(Device device) noexcept {
  int loaded = 0;
  try {
    static const ModuleCalls calls = find_calls();
    DeviceScope scope(device);
    for (const KernelModule* file = KernelModule::first; file != nullptr; file = file->next)
      for (CUfunction kernel : kernels_of(*file, calls))
        loaded += calls.load(kernel) == CUDA_SUCCESS ? 1 : 0;
  } catch (const std::exception&) {  // they are loaded when they first run
  }
  return loaded;
}

}  // namespace brim::cuda
