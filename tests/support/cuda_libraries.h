// Convolutions and matrix products on an emulated GPU, by plain loops on the host: in place of what
// cuDNN and cuBLASLt compute on a real one, so that whole networks train there. Convolutions are in
// place of all that brim does for cuDNN, so the tests of the ops themselves do without; of cuBLASLt
// it is the library alone (plain_cublaslt.h).
#pragma once

namespace brim::testing {

/// From now on where the GPU is emulated; else does nothing and returns false.
bool use_plain_cuda_libraries();

}  // namespace brim::testing
