// Puts the kernels of ops into the table: those of every device that this was built for. ops/op.h
// calls it before main, so programs need not. A file of kernels for the CPU has its line in
// ops/cpu/register.h; an op outside of this tree enters its own with `register_kernel`
// (core/launch.h).
#pragma once

namespace brim {

/// Enters every kernel once; returns true.
bool register_kernels();

}  // namespace brim
