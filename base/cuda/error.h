// What a failed call of CUDA's runtime is to brim: an error that names the call and what the
// runtime says of it. For the runtime's own calls; cuBLASLt and cuDNN have a `check` each
// (cublaslt.cuh, cudnn.cuh). What goes wrong while a kernel runs is reported by the next call that
// waits.
#pragma once

#include "brim/base/error.h"

namespace brim::cuda {

/// A library or the runtime got no memory of its own. `launch` (core/launch.h) makes it
/// `memory::OutOfMemory`, with the account's numbers: this layer knows of no account.
class AllocationError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

/// A library says that it has nothing which computes this on this GPU: another way may be taken. No
/// other failure is an answer.
class UnsupportedError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

/// A library does not take what it was given: brim's fault, or that of a file that brim has read.
class BadParameterError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

/// A library is not on this machine, or cannot be loaded.
class MissingLibraryError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

/// Whether the current GPU has next to nothing free: libraries that cannot load a kernel then say
/// that it failed, and not why.
bool is_nearly_full() noexcept;

/// Does nothing where `error`, a cudaError_t, is 0. Throws `AllocationError` for want of memory,
/// else `DeviceError`: "cuda: cudaSetDevice failed: invalid device ordinal
/// (cudaErrorInvalidDevice)". The runtime forgets the error, if it can.
void check(int error, const char* call);

}  // namespace brim::cuda
