#include "brim/ops/cpu/conv2d_generic.h"

#include <algorithm>

#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/gemm.h"

namespace brim::cpu {
namespace {

/// Row i: the window of x under output pixel i, [r][s][channels of the group]; zero outside.
template <class T>
class Windows final : public Rows<T> {
 public:
  Windows(const ConvShape& shape, int64_t group, const T* x)
      : shape_(shape),
        x_(x),
        first_channel_(group * shape.group_channels()),
        // Neighbouring taps of a row lie next to each other in x too, unless dilation or groups
        // come between: then they are copied together, as one tap.
        run_(shape.groups == 1 && shape.dilation.w == 1 ? shape.s : 1) {}

  const T* row(int64_t i, int64_t begin, int64_t count, T* buffer) const override {
    if (shape_.is_pointwise()) return x_ + i * shape_.c + first_channel_ + begin;
    int64_t j = i % shape_.q, rest = i / shape_.q;
    int64_t top = rest % shape_.p * shape_.stride.h - shape_.padding.h;
    int64_t left = j * shape_.stride.w - shape_.padding.w;
    int64_t first_row = rest / shape_.p * shape_.h, channels = shape_.group_channels();
    int64_t tap = begin / channels, channel = begin % channels;
    for (int64_t done = 0; done < count; channel = 0) {
      int64_t taps = run_ - tap % run_;  // to the end of the run
      int64_t y = top + tap / shape_.s * shape_.dilation.h;
      int64_t x = left + tap % shape_.s * shape_.dilation.w;
      if (x < 0 || x + taps > shape_.w) taps = 1;
      int64_t size = std::min(taps * channels - channel, count - done);
      bool inside = y >= 0 && y < shape_.h && x >= 0 && x < shape_.w;
      if (inside) {
        const T* from = x_ + ((first_row + y) * shape_.w + x) * shape_.c + first_channel_ + channel;
        if (size == count) return from;
        std::copy(from, from + size, buffer + done);
      } else {
        std::fill(buffer + done, buffer + done + size, T(0));
      }
      done += size;
      tap += taps;
    }
    return buffer;
  }

 private:
  const ConvShape& shape_;
  const T* x_;
  int64_t first_channel_, run_;
};

/// Row i: what of dy met input pixel i, [r][s][outputs of the group]; zero where a window with
/// that tap there does not exist.
template <class T>
class Gradients final : public Rows<T> {
 public:
  Gradients(const ConvShape& shape, int64_t group, const T* dy)
      : shape_(shape), dy_(dy), first_output_(group * shape.group_outputs()) {}

  const T* row(int64_t i, int64_t begin, int64_t count, T* buffer) const override {
    int64_t outputs = shape_.group_outputs();
    int64_t x = i % shape_.w + shape_.padding.w, rest = i / shape_.w;
    int64_t y = rest % shape_.h + shape_.padding.h;
    int64_t first_row = rest / shape_.h * shape_.p;
    int64_t tap = begin / outputs, output = begin % outputs;
    for (int64_t done = 0; done < count; ++tap, output = 0) {
      int64_t run = std::min(outputs - output, count - done);
      int64_t row = y - tap / shape_.s * shape_.dilation.h;
      int64_t column = x - tap % shape_.s * shape_.dilation.w;
      bool met =
          row >= 0 && column >= 0 && row % shape_.stride.h == 0 && column % shape_.stride.w == 0;
      row /= shape_.stride.h;
      column /= shape_.stride.w;
      met = met && row < shape_.p && column < shape_.q;
      if (met) {
        const T* from =
            dy_ + ((first_row + row) * shape_.q + column) * shape_.k + first_output_ + output;
        if (run == count) return from;
        std::copy(from, from + run, buffer + done);
      } else {
        std::fill(buffer + done, buffer + done + run, T(0));
      }
      done += run;
    }
    return buffer;
  }

 private:
  const ConvShape& shape_;
  const T* dy_;
  int64_t first_output_;
};

/// The weights of a group with row (r, s, output) and a column per channel.
template <class T>
class Filters final : public Rows<T> {
 public:
  Filters(const ConvShape& shape, int64_t group, const T* weight)
      : shape_(shape), weight_(weight + group * shape.group_outputs() * shape.window()) {}

  const T* row(int64_t i, int64_t begin, int64_t, T*) const override {
    int64_t outputs = shape_.group_outputs();
    return weight_ + i % outputs * shape_.window() + i / outputs * shape_.group_channels() + begin;
  }

 private:
  const ConvShape& shape_;
  const T* weight_;
};

int64_t filter_terms(const ConvShape& shape) { return shape.r * shape.s * shape.group_outputs(); }

}  // namespace

template <class T>
int64_t conv2d_generic_scratch(const ConvShape& shape) {
  return gemm_scratch<T>(shape.pixels(), shape.group_outputs(), shape.window());
}

template <class T>
void conv2d_generic(const ConvShape& shape, const T* x, const T* weight, const T* bias, T* y,
                    void* scratch) {
  int64_t outputs = shape.group_outputs();
  for (int64_t group = 0; group < shape.groups; ++group) {
    Windows<T> windows(shape, group, x);
    DenseRows<T> filters(weight + group * outputs * shape.window(), shape.window());
    gemm<T, T>({.m = shape.pixels(),
                .n = outputs,
                .k = shape.window(),
                .a = {&windows},
                .b = {&filters, true},
                .c = y + group * outputs,
                .c_stride = shape.k,
                .bias = bias == nullptr ? nullptr : bias + group * outputs},
               scratch);
  }
}

template <class T>
int64_t conv2d_generic_backward_data_scratch(const ConvShape& shape) {
  return gemm_scratch<T>(shape.n * shape.h * shape.w, shape.group_channels(), filter_terms(shape));
}

template <class T>
void conv2d_generic_backward_data(const ConvShape& shape, const T* dy, const T* weight, T* dx,
                                  void* scratch) {
  for (int64_t group = 0; group < shape.groups; ++group) {
    Gradients<T> gradients(shape, group, dy);
    Filters<T> filters(shape, group, weight);
    gemm<T, T>({.m = shape.n * shape.h * shape.w,
                .n = shape.group_channels(),
                .k = filter_terms(shape),
                .a = {&gradients},
                .b = {&filters},
                .c = dx + group * shape.group_channels(),
                .c_stride = shape.c},
               scratch);
  }
}

template <class T>
int64_t conv2d_generic_backward_weight_scratch(const ConvShape& shape) {
  ScratchCursor cursor(nullptr);
  cursor.take<double>(shape.group_outputs() * shape.window());
  return cursor.used() + gemm_scratch<T>(shape.group_outputs(), shape.window(), shape.pixels());
}

template <class T>
void conv2d_generic_backward_weight(const ConvShape& shape, const T* x, const T* dy, T* dweight,
                                    void* scratch) {
  int64_t outputs = shape.group_outputs(), size = outputs * shape.window();
  ScratchCursor cursor(scratch);
  double* sums = cursor.take<double>(size);
  void* rest = cursor.take<char>(0);
  for (int64_t group = 0; group < shape.groups; ++group) {
    DenseRows<T> gradients(dy + group * outputs, shape.k);
    Windows<T> windows(shape, group, x);
    gemm<T, double>({.m = outputs,
                     .n = shape.window(),
                     .k = shape.pixels(),
                     .a = {&gradients, true},
                     .b = {&windows},
                     .c = sums,
                     .c_stride = shape.window()},
                    rest);
    T* to = dweight + group * size;
    parallel_for(size, 16384, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(sums[i]);
    });
  }
}

#define BRIM_INSTANTIATE(T)                                                                    \
  template int64_t conv2d_generic_scratch<T>(const ConvShape&);                                \
  template void conv2d_generic(const ConvShape&, const T*, const T*, const T*, T*, void*);     \
  template int64_t conv2d_generic_backward_data_scratch<T>(const ConvShape&);                  \
  template void conv2d_generic_backward_data(const ConvShape&, const T*, const T*, T*, void*); \
  template int64_t conv2d_generic_backward_weight_scratch<T>(const ConvShape&);                \
  template void conv2d_generic_backward_weight(const ConvShape&, const T*, const T*, T*, void*);
BRIM_INSTANTIATE(float)
BRIM_INSTANTIATE(double)
#undef BRIM_INSTANTIATE

}  // namespace brim::cpu
