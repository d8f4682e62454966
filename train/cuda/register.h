// CUDA's part of the kernel table for training, as train/cpu/register.h is the CPU's. In a build
// without the toolkit `register_train_kernels` does nothing.
#pragma once

namespace brim::cuda {

/// Enters every kernel once; returns true.
bool register_train_kernels();

void register_mix();

}  // namespace brim::cuda
