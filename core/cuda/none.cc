// The build without the CUDA toolkit: nothing to enter, and nothing to gather.
#include "brim/core/cuda/batch.h"
#include "brim/core/cuda/register.h"

namespace brim::cuda {

void register_core_kernels() {}

BatchScope::BatchScope() = default;
BatchScope::~BatchScope() = default;

void start_gathered() {}

int64_t batches_started() { return 0; }

}  // namespace brim::cuda
