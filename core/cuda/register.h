// CUDA's part of the kernel table, as far as a tensor itself needs it: the kernels of
// core/kernels.h. `launch` calls it before the first lookup, whether or not there is a GPU; in a
// build without the toolkit it does nothing. The ops' are in ops/cuda/register.h.
#pragma once

namespace brim::cuda {

/// To be called once.
void register_core_kernels();

// One for each file here.
void register_copy();
void register_draw();

}  // namespace brim::cuda
