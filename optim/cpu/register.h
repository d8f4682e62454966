// The CPU's part of the kernel table for optimizers: one line per file of kernels here and in
// register.cc. Programs need not call it: optim/optimizer.h does, before main. Kernels of ops are
// in ops/cpu/register.h; one outside of the tree registers itself, as docs/lse_pool/lse_pool.h
// does.
#pragma once

namespace brim::cpu {

/// Enters every kernel once; returns true.
bool register_optimizer_kernels();

void register_adamw();
void register_ema();
void register_judge();
void register_sgd();
void register_square_sum();
void register_step_scalars();

}  // namespace brim::cpu
