// The CPU's part of the kernel table for shrink/: one line per file of kernels here and in
// register.cc. Programs need not call it: shrink/weight_masks.cc does, before main.
#pragma once

namespace brim::cpu {

/// Enters every kernel once; returns true.
bool register_shrink_kernels();

void register_apply_mask();

}  // namespace brim::cpu
