// Puts the kernels of optimizers into the table: those of every device that this was built for.
// Sources that launch one include this, so programs need not. A file of kernels for the CPU has its
// line in optim/cpu/register.h; the kernels of ops are in ops/register_kernels.h.
#pragma once

namespace brim::optim {

/// Enters every kernel once, the CPU's in the form for `instructions()`; returns true.
bool register_kernels();

// A program that links an optimizer runs this before main, and so has the kernels.
inline const bool kernels_ready = register_kernels();

}  // namespace brim::optim
