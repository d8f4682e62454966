// What a test of cuDNN's choices says where the library is missing: they need no GPU. For inside of
// a test case, in builds with the CUDA toolkit.
#pragma once

#include <doctest/doctest.h>

#include "brim/base/cuda/library.h"
#include "brim/base/error.h"

namespace brim::testing {

/// Whether it did.
inline bool skipped_without_cudnn() {
  try {
    cuda::Library("libcudnn.so.9");
    return false;
  } catch (const DeviceError& error) {
    MESSAGE("skipped: cuDNN's engines (", error.what(), ")");
    return true;
  }
}

}  // namespace brim::testing
