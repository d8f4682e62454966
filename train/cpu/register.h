// The CPU's part of the kernel table for training: one line per file of kernels here and in
// register.cc. Programs need not call it: train/mix.cc does, before main. Kernels of ops are in
// ops/cpu/register.h, those of optimizers in optim/cpu/register.h.
#pragma once

namespace brim::cpu {

/// Enters every kernel once; returns true.
bool register_train_kernels();

void register_mix();

}  // namespace brim::cpu
