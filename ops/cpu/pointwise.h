// 1x1 convolutions as matrix products of the pixels, where they lie, with packed weights: what
// comes out is finished while it is in registers. It gets its bias, the statistics that a batch
// norm will want are gathered from it (which saves a sweep over memory), and where it is large it
// is stored past the caches. For a stride, the pixels under windows are copied together first.
#pragma once

#include "brim/ops/conv_shape.h"
#include "brim/ops/cpu/channel_moments.h"

namespace brim::cpu {
class InputNorm;  // input_norm.h
}

namespace brim::cpu::pointwise {

/// Is it possible, and faster than a library (bench/conv_bench.cc)? The window is one pixel, there
/// is one group and no padding, and pixels are enough to outweigh packing the weights. The scratch,
/// which grows with threads, is with two of them, and without statistics, no larger than x, y and
/// the weights together.
bool suits(const ConvShape& shape, ConvPass pass);

// Float32, contiguous, of the shapes that ConvShape says; the scratch in bytes, on a line's
// boundary, of as many threads as there are. Only where `suits` says so. Sums are over channels, in
// order: y and dx depend neither on the batch nor on the number of threads.

int64_t forward_scratch(const ConvShape& shape, bool with_statistics);
/// `bias` may be null, and the statistics of y be left out.
void forward(const ConvShape& shape, const float* x, const float* weight, const float* bias,
             float* y, const BatchStatistics& statistics, void* scratch);
/// The same of an input that goes through `norm` on the way, a block of pixels at a time; the
/// scratch is enough with statistics and without.
int64_t normalized_forward_scratch(const ConvShape& shape, const InputNorm& norm);
void normalized_forward(const ConvShape& shape, const InputNorm& norm, const float* x,
                        const float* weight, const float* bias, float* y,
                        const BatchStatistics& statistics, void* scratch);
int64_t backward_data_scratch(const ConvShape& shape);
void backward_data(const ConvShape& shape, const float* dy, const float* weight, float* dx,
                   void* scratch);
/// Is shown pixels, some hundred at a time, before a product takes them: who reads the same memory
/// does so once. Those of a piece come in order, by one of as many threads as there are.
class UnitVisitor {
 public:
  virtual ~UnitVisitor() = default;
  virtual int64_t pieces() const = 0;
  virtual void begin(int64_t piece) = 0;
  virtual void visit(int64_t thread, int64_t piece, int64_t begin, int64_t end) = 0;
};
/// The data gradient on its way into the norm before the convolution: g, of the shape of x, gets
/// the gradient of what went into the activation. Its sums over all pixels, and those of g * (x -
/// mean), go to [C]. `visitor`, of pixels of dy, may be null. Only where `goes_into_norm`: where
/// there is a data gradient, of channels that fill vectors.
bool goes_into_norm(const ConvShape& shape);
int64_t backward_into_norm_scratch(const ConvShape& shape);
void backward_into_norm(const ConvShape& shape, const InputNorm& norm, const float* x,
                        const float* dy, const float* weight, float* g, UnitVisitor* visitor,
                        double* sum_g, double* sum_gx, void* scratch);
/// dx += the gradient, for a stride of 1; the same scratch.
void add_backward_data(const ConvShape& shape, const float* dy, const float* weight, float* dx,
                       void* scratch);

}  // namespace brim::cpu::pointwise
