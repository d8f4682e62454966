// What a GPU holds for a program before there is a tensor: the runtime's context, the code of
// kernels, the handles of libraries (docs/gpu_context.md). It is no account's, but a budget counts
// it: open it before anything is planned, so that it is there already.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "brim/base/device.h"

namespace brim::cuda {

struct Context {
  int64_t bytes = 0;
  bool is_measured = false;  ///< false where the driver's NVML is not there to ask
  int kernels = 0;           ///< of brim's own, which were loaded with it
  /// What failed where not all could be: "cuFuncLoad: cudaErrorInvalidImage". They come as they
  /// first run, and are beyond what was measured. "" where all are there.
  std::string kernels_failure;
  /// What the GPU had free before it, where it was measured.
  int64_t free_before = 0;
};

/// Opens the context of a GPU, with brim's kernels and the libraries that it calls, once, and
/// measures it: what the GPU has free before and after, which other programs may blur. `warm_up`
/// is called in between, by the first call alone: for what libraries make when they first compute
/// (ops/cuda/warm_up.h). It must ask no account for bytes. A library that is missing is left
/// to the op that wants it; what else it throws is thrown. Throws `DeviceError` for a GPU that is
/// not here, or has no room for it.
const Context& open_context(Device device, const std::function<void()>& warm_up = {});

/// A sentence for people where brim was not compiled for this GPU, and the driver will compile its
/// kernels as the context is opened; "" where it was, or the driver has done so before (it keeps
/// what it made, and nobody can ask). Throws `DeviceError`.
std::string kernels_to_compile(Device device);

/// What an open context has grown by since it was measured, as the GPU is now and where
/// `reserved` bytes of it are tensors': what libraries loaded since, below 0 for what others gave
/// back. Nothing where it cannot be measured.
std::optional<int64_t> context_growth(Device device, int64_t reserved);

}  // namespace brim::cuda
