#include "brim/tests/support/cuda_libraries.h"

namespace brim::testing {

void use_plain_cuda_libraries() {}

}  // namespace brim::testing
