// Convolutions of 3x3 windows by Winograd's method: a tile of 4x4 outputs takes 36 multiplications
// of each channel instead of 144, and one of 2x2 takes 16 instead of 36, and some additions
// (ops/cpu/winograd_transform.h). Of all tiles and channels, each of the 36 or 16 is a matrix
// product. Tiles go through it a few at a time, so that what is computed on the way stays in the
// second-level cache.
//
// A. Lavin, S. Gray, "Fast algorithms for convolutional neural networks", CVPR 2016.
#pragma once

#include "brim/ops/conv_shape.h"
#include "brim/ops/cpu/channel_moments.h"

namespace brim::cpu {
class InputNorm;  // input_norm.h
}

namespace brim::cpu::winograd {

/// Outputs of a tile, each way, where the method is possible, and faster than a direct sum
/// (bench/conv_bench.cc): 2 or 4, else 0. Stride, dilation and groups are 1; channels fill vectors,
/// and are enough of them to outweigh the transforms of x and y, as the tiles are to outweigh those
/// of the filters, and pixels are not few (ops/cpu/few_pixels.h). And the scratch, which grows with
/// threads and with the processor's vectors, is with two of them, of the widest, and without
/// statistics, no larger than x, y and the weights together: processors whose vectors the channels
/// fill choose alike.
int outputs_of_tile(const ConvShape& shape, ConvPass pass);
/// Is it so at all?
inline bool suits(const ConvShape& shape, ConvPass pass) {
  return outputs_of_tile(shape, pass) > 0;
}

// Float32, contiguous, of the shapes that ConvShape says; the scratch in bytes, on a line's
// boundary, of as many threads as there are. Only where `suits` says so. A pixel's sums are over
// channels, in order: the number of threads does not matter, and nor does the batch, but for the
// tiles that suit it. Weight gradients are sums over tiles, in an order that the sizes give.

int64_t forward_scratch(const ConvShape& shape, bool with_statistics);
/// `bias` may be null, and the statistics of y be left out. With a norm, it is what that gives of x
/// which is convolved.
void forward(const ConvShape& shape, const float* x, const float* weight, const float* bias,
             float* y, const BatchStatistics& statistics, void* scratch,
             const InputNorm* norm = nullptr);
int64_t backward_data_scratch(const ConvShape& shape);
void backward_data(const ConvShape& shape, const float* dy, const float* weight, float* dx,
                   void* scratch);
/// The data gradient on its way into the norm before the convolution: g, of the shape of x, gets
/// the gradient of what went into the activation. Its sums over all pixels, and those of g * (x -
/// mean), go to [C].
int64_t backward_into_norm_scratch(const ConvShape& shape);
void backward_into_norm(const ConvShape& shape, const InputNorm& norm, const float* x,
                        const float* dy, const float* weight, float* g, double* sum_g,
                        double* sum_gx, void* scratch);
/// Does a weight gradient read and transform x once? It does so for each part of the filters.
bool transforms_x_once(const ConvShape& shape);
int64_t backward_weight_scratch(const ConvShape& shape);
/// With a norm, what that gives of x is what was convolved.
void backward_weight(const ConvShape& shape, const float* x, const float* dy, float* dweight,
                     void* scratch, const InputNorm* norm = nullptr);

}  // namespace brim::cpu::winograd
