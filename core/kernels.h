// The kernels that a tensor itself needs: copying, filling, counting, drawing and adding in place.
// Kernels believe what they are given, so call the functions of core/tensor.h over them
// (`copy_into`, `fill`, `fill_normal`, `accumulate_into`) instead of launching them. None is
// recorded on the tape. The CPU's versions are in copy.cc and draw.cc, CUDA's in cuda/; ops declare
// their own.
#pragma once

#include "brim/core/launch.h"

namespace brim::kernel {

/// out[0] = in[0], converting; same shape, any strides. Keyed by the output's dtype.
inline constexpr Kernel<NoAttributes> copy{"copy"};

struct FillAttributes {
  double value = 0;
};
/// Every element of out[0] becomes the value; any strides.
inline constexpr Kernel<FillAttributes> fill{"fill"};

/// Element i of out[0], in row-major order, becomes i, or a draw from (key, i); contiguous.
inline constexpr Kernel<NoAttributes> arange{"arange"};
struct UniformAttributes {
  double low = 0, high = 1;
  RandomKey key;
};
inline constexpr Kernel<UniformAttributes> uniform{"uniform"};
struct NormalAttributes {
  double deviation = 1;
  RandomKey key;
};
inline constexpr Kernel<NormalAttributes> normal{"normal"};

/// out[0] += in[0]; same shape, any strides; floating dtypes.
inline constexpr Kernel<NoAttributes> accumulate{
    "accumulate", /*updates=*/true, kElementwise1};

}  // namespace brim::kernel

namespace brim {
/// Put the CPU's versions into the table; called by `launch` before the first lookup.
void register_core_kernels();
void register_draw_kernels();
}  // namespace brim
