#include "brim/ops/fused_library.h"

#include "brim/ops/cpu/conv2d.h"
#include "brim/ops/cpu/conv2d_slices.h"

namespace brim {

onednn::PrimitivePtr fused_library(const ConvShape& shape, bool with_bias,
                                   const onednn::Epilogue& epilogue) {
  if (cpu::is_empty(shape) || cpu::has_own_forward(shape)) return nullptr;
  onednn::PrimitivePtr found = onednn::find_fused_convolution(shape, with_bias, epilogue);
  if (found == nullptr || onednn::is_slow_on_nhwc(*found, shape)) return nullptr;
  return found;
}

}  // namespace brim
