// Stands in for what cuBLASLt and cuDNN compute where kernels are emulated: nothing. Their kernels
// are not in the table, so an op that wants one says so.
#include "brim/ops/cuda/register.h"

namespace brim::cuda {

void register_matmul() {}
void register_conv2d() {}

}  // namespace brim::cuda
