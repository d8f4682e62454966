// Workspace for cuBLASLt and cuDNN, a piece of a kernel's scratch. It is capped, and the cap does
// not depend on what a budget leaves: so neither does the algorithm, nor its result.
#pragma once

#include "brim/base/stand_in.h"
#include "brim/core/launch.h"

namespace brim::cuda {

/// Algorithms that want more bytes are not considered.
inline constexpr int64_t kWorkspaceCap = int64_t{64} << 20;

/// Whether a GPU is planned for that is not here.
inline bool is_elsewhere(Device device) { return device.is_meta() && !stand_in().is_here; }

/// `bytes` on a boundary of 256, which the libraries want and an account does not promise.
inline char* take_workspace(ScratchCursor& cursor, int64_t bytes) {
  constexpr uintptr_t kBoundary = 256;
  if (bytes == 0) return nullptr;
  char* base = cursor.take<char>(bytes + static_cast<int64_t>(kBoundary));
  auto beyond = reinterpret_cast<uintptr_t>(base) % kBoundary;
  return beyond == 0 ? base : base + (kBoundary - beyond);
}

inline int64_t workspace_scratch(int64_t bytes) {
  ScratchCursor cursor(nullptr);
  take_workspace(cursor, bytes);
  return cursor.used();
}

/// The largest power of two that divides the address, up to what every buffer starts on: the same
/// wherever a buffer is placed, so that it may choose algorithms.
inline int64_t alignment_of(const void* address) {
  auto bits = static_cast<int64_t>(reinterpret_cast<uintptr_t>(address)) | memory::kAlignment;
  return bits & -bits;
}

}  // namespace brim::cuda
