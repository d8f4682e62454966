#include "brim/ops/fused_library.h"

#include <string_view>

#include "brim/ops/cpu/few_pixels.h"

namespace brim {

onednn::PrimitivePtr fused_library(const ConvShape& shape, bool with_bias,
                                       const onednn::Epilogue& epilogue) {
  const bool is_empty = shape.pixels() == 0 || shape.k == 0 || shape.window() == 0;
  if (is_empty || shape.is_depthwise() || cpu::has_few_pixels(shape)) return nullptr;
  const onednn::PrimitivePtr found = onednn::find_fused_convolution(shape, with_bias, epilogue);
  // As in ops/cpu/conv2d.cc: these are made for other layouts.
  const bool is_slow = found != nullptr && shape.groups == 1 && shape.c >= 64 && shape.k >= 64 &&
                       std::string_view(onednn::implementation(*found)) == "jit:avx2";
  return is_slow ? nullptr : found;
}

}  // namespace brim
