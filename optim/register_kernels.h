// Puts the kernels of optimizers into the table: those of every device that this was built for.
// optim/optimizer.h calls it before main, so programs need not. A file of kernels for the CPU has
// its line in optim/cpu/register.h; the kernels of ops are in ops/register_kernels.h.
#pragma once

namespace brim::optim {

/// Enters every kernel once; returns true.
bool register_kernels();

}  // namespace brim::optim
