// Convolutions of a few output pixels, as the last ones of a network have with a small batch. All
// their time goes into moving the weights, so each pass reads or writes these once, in order, where
// they lie; a library first copies them into an order of its own. The pixels under each window are
// copied side by side (im2col), which is little. For more pixels see ops/cpu/conv2d.cc.
#pragma once

#include "brim/ops/conv_shape.h"

namespace brim::cpu {

/// Pixels that are few for every pass, and for weights that a library keeps in an order of its own.
inline constexpr int64_t kFewPixels = 16;
/// For a pass that reads weights which a library would first have to put into its order.
inline constexpr int64_t kFewPixelsOfOneCall = 64;

/// Of one group, at most `most` pixels of y, and weights enough for each, in windows long enough,
/// to outweigh copying windows and adding up across lanes (bench/step on resnet18 and resnet20,
/// batch 1).
bool has_few_pixels(const ConvShape& shape, int64_t most = kFewPixels);

// T: float or double. Sums are in T: over windows in as many parts as a vector has elements, over
// outputs in order, of many in four parts, and over pixels in order. They do not depend on the
// number of threads.

template <class T>
int64_t few_pixels_scratch(const ConvShape& shape, ConvPass pass);
/// `kernel::conv2d_windows`.
template <class T>
void conv2d_windows(const ConvShape& shape, const T* x, T* windows);
template <class T>
void few_pixels(const ConvShape& shape, const T* x, const T* weight, const T* bias, T* y,
                void* scratch);
template <class T>
void few_pixels_backward_data(const ConvShape& shape, const T* dy, const T* weight, T* dx,
                              void* scratch);
template <class T>
void few_pixels_backward_weight(const ConvShape& shape, const T* x, const T* dy, T* dweight,
                                void* scratch);

}  // namespace brim::cpu
