// The CPU's part of the kernel table for optimizers: one line per file of kernels here and in
// register.cc.
#pragma once

namespace brim::cpu {

/// Enters every kernel once; returns true.
bool register_optimizer_kernels();

void register_all_finite();
void register_sgd();
void register_step_scalars();

}  // namespace brim::cpu
