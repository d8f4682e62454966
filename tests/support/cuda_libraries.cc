#include "brim/tests/support/cuda_libraries.h"

namespace brim::testing {

bool use_plain_cuda_libraries() { return false; }

}  // namespace brim::testing
