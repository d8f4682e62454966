// CUDA's part of the kernel table for optimizers, as optim/cpu/register.h is the CPU's. In a build
// without the toolkit `register_optimizer_kernels` does nothing.
#pragma once

namespace brim::cuda {

/// Enters every kernel once; returns true.
bool register_optimizer_kernels();

void register_adamw();
void register_ema();
void register_judge();
void register_sgd();
void register_square_sum();
void register_step_scalars();

}  // namespace brim::cuda
