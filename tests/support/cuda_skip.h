// What a test of GPUs says where there is none, neither a real one nor an emulated: setup.sh counts
// these lines. For inside of a test case.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "brim/base/cuda/devices.h"

namespace brim::testing {

/// Whether it did: "skipped: offloads on CUDA (no driver is installed)".
inline bool skipped_on_cuda(const std::string& what) {
  const std::string why = cuda::why_no_device();
  if (!why.empty()) MESSAGE("skipped: ", what, " on CUDA (", why, ")");
  return !why.empty();
}

}  // namespace brim::testing
