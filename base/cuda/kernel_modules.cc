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

/// A call that failed, which is no error of anybody's: what it asked for comes later.
struct NotLoaded {
  std::string failure;
};

/// The driver's errors have the numbers of the runtime's.
void require(int status, const char* call) {
  if (status == cudaSuccess) return;
  if (status == cudaErrorMemoryAllocation) check(status, call);
  throw NotLoaded{fmt::format("{}: {}", call, cudaGetErrorName(static_cast<cudaError_t>(status)))};
}

std::vector<CUfunction> kernels_of(const KernelModule& file, const ModuleCalls& calls) {
  cudaFunction_t one = nullptr;
  const cudaError_t status = cudaGetFuncBySymbol(&one, file.kernel);
  if (status != cudaSuccess) cudaGetLastError();  // the runtime forgets it
  require(status, "cudaGetFuncBySymbol");
  CUmodule module = nullptr;
  unsigned count = 0;
  require(calls.module_of(&module, one), "cuFuncGetModule");
  require(calls.count(&count, module), "cuModuleGetFunctionCount");
  std::vector<CUfunction> kernels(count);
  require(calls.enumerate(kernels.data(), count, module), "cuModuleEnumerateFunctions");
  return kernels;
}

void load_file(const KernelModule& file, const ModuleCalls& calls, LoadedKernels& loaded) {
  try {
    for (CUfunction kernel : kernels_of(file, calls)) {
      require(calls.load(kernel), "cuFuncLoad");
      ++loaded.count;
    }
  } catch (const NotLoaded& error) {
    if (loaded.failure.empty()) loaded.failure = error.failure;
  }
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

LoadedKernels load_kernels(Device device) {
  static const ModuleCalls calls = find_calls();
  LoadedKernels loaded;
  DeviceScope scope(device);
  for (const KernelModule* file = KernelModule::first; file != nullptr; file = file->next)
    load_file(*file, calls, loaded);
  return loaded;
}

}  // namespace brim::cuda
