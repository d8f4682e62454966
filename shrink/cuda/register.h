// CUDA's part of the kernel table for shrink/, as shrink/cpu/register.h is the CPU's. In a build
// without the toolkit `register_shrink_kernels` does nothing.
#pragma once

namespace brim::cuda {

/// Enters every kernel once; returns true.
bool register_shrink_kernels();

void register_apply_mask();

}  // namespace brim::cuda
