// Stands in for what cuBLASLt and cuDNN compute where kernels are emulated: nothing. An op that
// wants one of them says so, as where its kernel is not in the table: convolutions when they are
// asked for, since depthwise ones are brim's own.
#include "brim/base/error.h"
#include "brim/ops/cuda/convolution.h"
#include "brim/ops/cuda/register.h"

namespace brim::cuda {

void register_matmul() {}

const Convolution& find_convolution(const ConvolutionCall& call, Device device) {
  raise<DtypeError>("conv2d", "has no kernel for {} on {}, but for depthwise windows",
                    to_string(call.dtype), to_string(device));
}

int64_t workspace_bytes(const Convolution&) { raise<InternalError>("conv2d", "there is no cuDNN"); }

void run(const Convolution&, const void*, const void*, void*, void*) {
  raise<InternalError>("conv2d", "there is no cuDNN");
}

}  // namespace brim::cuda
