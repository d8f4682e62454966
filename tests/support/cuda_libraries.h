// Convolutions and matrix products on an emulated GPU, by plain loops on the host: in place of what
// cuDNN and cuBLASLt compute on a real one, so that whole networks train there. They show nothing
// of the libraries, so the tests of the ops themselves do without.
#pragma once

namespace brim::testing {

/// Enters them into the kernel table, once, where the GPU is emulated; else does nothing, and
/// returns false.
bool use_plain_cuda_libraries();

}  // namespace brim::testing
