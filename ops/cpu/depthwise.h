// Depthwise convolution: one filter per channel (groups = C = K). Bound by memory, so each kernel
// reads and writes every activation about once. Windows of 3x3 and 5x5 with a stride of 1 or 2 have
// fast paths. With several filters per channel (K > C) it is a grouped convolution: see
// ops/cpu/conv2d.cc, which chooses. Halves are computed with in float32. The weight gradient is
// summed per thread: its last bits depend on their number.
#pragma once

#include "brim/ops/conv_shape.h"
#include "brim/ops/cpu/channel_moments.h"
#include "brim/ops/cpu/vector.h"

namespace brim::cpu {

class InputNorm;  // input_norm.h

// T: float, double, BFloat16 or Float16.

/// Forward and data gradient: the weights, reordered.
template <class T>
int64_t depthwise_scratch(const ConvShape& shape);
template <class T>
void depthwise(const ConvShape& shape, const T* x, const T* weight, const T* bias, T* y,
               void* scratch);
template <class T>
void depthwise_backward_data(const ConvShape& shape, const T* dy, const T* weight, T* dx,
                             void* scratch);

/// Forward with the statistics of y, which do not depend on the number of threads; where channels
/// fill vectors, and rows are no longer than float32 can add up.
bool depthwise_gathers_statistics(const ConvShape& shape);
int64_t depthwise_with_statistics_scratch(const ConvShape& shape);
void depthwise_with_statistics(const ConvShape& shape, const float* x, const float* weight,
                               const float* bias, float* y, const BatchStatistics& statistics,
                               void* scratch);

/// The same of an input that goes through `norm` on the way, rows of it at a time; the statistics
/// may be left out.
int64_t normalized_depthwise_scratch(const ConvShape& shape, const InputNorm& norm);
void normalized_depthwise(const ConvShape& shape, const InputNorm& norm, const float* x,
                          const float* weight, const float* bias, float* y,
                          const BatchStatistics& statistics, void* scratch);

/// Sums are in Compute<T> over 256 pixels, or up to the end of the row that they end in; in double
/// beyond.
template <class T>
int64_t depthwise_backward_weight_scratch(const ConvShape& shape);
template <class T>
void depthwise_backward_weight(const ConvShape& shape, const T* x, const T* dy, Compute<T>* dweight,
                               void* scratch);

}  // namespace brim::cpu
