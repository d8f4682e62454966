// A GPU that need not be there, as cuDNN takes one described: its engines are chosen for it as for
// a real one. For what runs on a GPU there is the emulator (cuda_emulator/).
#pragma once

#include <string>

#include "brim/base/gpu_description.h"

namespace brim::testing {

// An H200.
inline const std::string kDescribedGpu = to_json(*gpu_description("h200-141gb"));

}  // namespace brim::testing
