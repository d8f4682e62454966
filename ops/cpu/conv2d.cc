#include "brim/ops/cpu/conv2d.h"

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "brim/base/parallel.h"
#include "brim/core/half_simd.h"
#include "brim/ops/conv_slices.h"
#include "brim/ops/cpu/conv2d_generic.h"
#include "brim/ops/cpu/conv2d_weight.h"
#include "brim/ops/cpu/depthwise.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/onednn.h"

namespace brim::cpu {
namespace {

using onednn::Pass;

// Views in the order of each kernel: see ops/conv2d.h.
ConvShape forward_shape(const KernelCall& call, const Conv2dOptions& options) {
  return {call.in[0].shape, call.in[1].shape, call.out[0].shape, options};
}
ConvShape data_shape(const KernelCall& call, const Conv2dOptions& options) {
  return {call.out[0].shape, call.in[1].shape, call.in[0].shape, options};
}
ConvShape weight_shape(const KernelCall& call, const Conv2dOptions& options) {
  return {call.in[0].shape, call.out[0].shape, call.in[1].shape, options};
}

/// oneDNN's direct kernels for AVX2 are made for blocked layouts. On NHWC our own do better
/// (bench/conv_bench.cc), unless there are so few channels that reading windows dominates, or a
/// stride leaves them mostly zeros to multiply in the data gradient.
bool ours_is_faster(const ConvShape& shape, Pass pass, std::string_view implementation) {
  if (implementation != "jit:avx2" || pass == Pass::backward_data || shape.groups > 1) return false;
  return (shape.c >= 64 && shape.k >= 64) ||
         (pass == Pass::backward_weight && has_weight_tiles<float>(shape));
}

/// oneDNN's convolution where it is the way to go, else null.
template <class T>
const onednn::Convolution* library(const ConvShape& shape, Pass pass, bool with_bias = false) {
  if constexpr (!std::is_same_v<T, float>) return nullptr;
  bool empty = shape.n * shape.p * shape.q * shape.k * shape.window() * shape.h * shape.w == 0;
  if (empty) return nullptr;
  const onednn::Convolution* found = onednn::find_convolution(shape, pass, with_bias);
  if (found == nullptr || ours_is_faster(shape, pass, onednn::implementation(*found)))
    return nullptr;
  return found;
}

template <class T>
int64_t forward_scratch(const KernelCall& call, const Conv2dOptions& options) {
  ConvShape shape = forward_shape(call, options);
  if (shape.is_depthwise()) return depthwise_scratch<T>(shape);
  if (auto* convolution = library<T>(shape, Pass::forward, call.in[2].present))
    return onednn::scratch_bytes(*convolution);
  return conv2d_generic_scratch<T>(shape);
}

template <class T>
void forward(const KernelCall& call, const Conv2dOptions& options) {
  ConvShape shape = forward_shape(call, options);
  const T *x = call.in[0].as<T>(), *weight = call.in[1].as<T>();
  const T* bias = call.in[2].present ? call.in[2].as<T>() : nullptr;
  T* y = call.out[0].as<T>();
  if (shape.is_depthwise()) return depthwise(shape, x, weight, bias, y, call.scratch);
  if constexpr (std::is_same_v<T, float>)
    if (auto* convolution = library<T>(shape, Pass::forward, bias != nullptr))
      return onednn::run(*convolution, x, weight, bias, y, call.scratch);
  conv2d_generic(shape, x, weight, bias, y, call.scratch);
}

template <class T>
int64_t backward_data_scratch(const KernelCall& call, const Conv2dOptions& options) {
  return conv2d_backward_data_scratch<T>(data_shape(call, options));
}

template <class T>
void backward_data(const KernelCall& call, const Conv2dOptions& options) {
  conv2d_backward_data(data_shape(call, options), call.in[0].as<T>(), call.in[1].as<T>(),
                       call.out[0].as<T>(), call.scratch);
}

template <class T>
int64_t slice_scratch(const ConvShape& shape) {
  if (shape.is_depthwise()) return depthwise_backward_weight_scratch<T>(shape);
  if (auto* convolution = library<T>(shape, Pass::backward_weight))
    return onednn::scratch_bytes(*convolution);
  if (has_weight_tiles<T>(shape)) return conv2d_tiled_backward_weight_scratch<T>(shape);
  return conv2d_generic_backward_weight_scratch<T>(shape);
}

template <class T>
void slice_gradient(const ConvShape& shape, const T* x, const T* dy, T* dweight, void* scratch) {
  if (shape.is_depthwise()) return depthwise_backward_weight(shape, x, dy, dweight, scratch);
  if constexpr (std::is_same_v<T, float>)
    if (auto* convolution = library<T>(shape, Pass::backward_weight))
      return onednn::run(*convolution, x, dy, nullptr, dweight, scratch);
  if (has_weight_tiles<T>(shape))
    return conv2d_tiled_backward_weight(shape, x, dy, dweight, scratch);
  conv2d_generic_backward_weight(shape, x, dy, dweight, scratch);
}

/// A weight gradient is computed from slices of the batch, which are added up.
struct WeightSlices {
  ConvShape shape;  ///< of the whole batch
  int64_t images;   ///< of a slice; the last may have fewer

  WeightSlices(const KernelCall& call, const Conv2dOptions& options)
      : shape(weight_shape(call, options)),
        images(std::max<int64_t>(std::min(images_of_slice(shape), shape.n), 1)) {}

  bool several() const { return shape.n > images; }
  ConvShape slice(int64_t count) const {
    ConvShape one = shape;
    one.n = count;
    return one;
  }
  /// Calls `of_slice` with its shape and whether it is the first; once for no images.
  template <class OfSlice>
  void each(const OfSlice& of_slice) const {
    for (int64_t begin = 0; begin == 0 || begin < shape.n; begin += images)
      of_slice(slice(std::min(images, shape.n - begin)), begin == 0);
  }
  /// Enough for each.
  template <class T>
  int64_t scratch() const {
    const int64_t rest = shape.n % images;
    int64_t most = shape.n >= images ? slice_scratch<T>(slice(images)) : 0;
    if (rest > 0 || shape.n == 0) most = std::max(most, slice_scratch<T>(slice(rest)));
    return most;
  }
  static int64_t elements_of_x(const ConvShape& one) { return one.n * one.h * one.w * one.c; }
  static int64_t elements_of_dy(const ConvShape& one) { return one.pixels() * one.k; }
};

template <class T>
void add_to(T* sum, const T* part, int64_t count) {
  parallel_for(count, 16384, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) sum[i] += part[i];
  });
}

/// The weight gradient of a batch, or what one adds to it.
template <class T>
class WeightGradient {
 public:
  WeightGradient(const KernelCall& call, const Conv2dOptions& options, bool adds)
      : call_(call), slices_(call, options), weights_(call.out[0].numel()), adds_(adds) {}

  int64_t scratch_bytes() const {
    ScratchCursor cursor(nullptr);
    take_part(cursor);
    return cursor.used() + slices_.template scratch<T>();
  }

  void run() const {
    ScratchCursor cursor(call_.scratch);
    T *part = take_part(cursor), *sum = call_.out[0].template as<T>();
    void* rest = cursor.take<char>(0);
    const T *x = call_.in[0].template as<T>(), *dy = call_.in[1].template as<T>();
    slices_.each([&](const ConvShape& shape, bool first) {
      const bool adds = adds_ || !first;
      slice_gradient<T>(shape, x, dy, adds ? part : sum, rest);
      if (adds) add_to(sum, part, weights_);
      x += WeightSlices::elements_of_x(shape);
      dy += WeightSlices::elements_of_dy(shape);
    });
  }

 private:
  /// Where a slice's gradient goes that is added to another's.
  T* take_part(ScratchCursor& cursor) const {
    return adds_ || slices_.several() ? cursor.take<T>(weights_) : nullptr;
  }

  const KernelCall& call_;
  WeightSlices slices_;
  int64_t weights_;
  bool adds_;
};

template <class To, class From>
void convert_all(To* to, const From* from, int64_t count) {
  parallel_for(count, 16384, [=](int64_t begin, int64_t end) {
    convert_row(to + begin, from + begin, end - begin);
  });
}

/// In halves: slices are widened one by one, the sum is in float32, and rounded once.
template <class S>
class HalfWeightGradient {
 public:
  HalfWeightGradient(const KernelCall& call, const Conv2dOptions& options)
      : call_(call), slices_(call, options), weights_(call.out[0].numel()) {}

  int64_t scratch_bytes() const {
    ScratchCursor cursor(nullptr);
    Parts(*this, cursor);
    return cursor.used() + slices_.template scratch<float>();
  }

  void run() const {
    ScratchCursor cursor(call_.scratch);
    const Parts parts(*this, cursor);
    void* rest = cursor.take<char>(0);
    const S *x = call_.in[0].as<S>(), *dy = call_.in[1].as<S>();
    slices_.each([&](const ConvShape& shape, bool first) {
      const int64_t of_x = WeightSlices::elements_of_x(shape),
                    of_dy = WeightSlices::elements_of_dy(shape);
      convert_all(parts.x, x, of_x);
      convert_all(parts.dy, dy, of_dy);
      slice_gradient<float>(shape, parts.x, parts.dy, first ? parts.sum : parts.part, rest);
      if (!first) add_to(parts.sum, parts.part, weights_);
      x += of_x;
      dy += of_dy;
    });
    convert_all(call_.out[0].as<S>(), parts.sum, weights_);
  }

 private:
  struct Parts {
    float *x, *dy, *sum, *part;
    Parts(const HalfWeightGradient& gradient, ScratchCursor& cursor) {
      const ConvShape most = gradient.slices_.slice(gradient.slices_.images);
      x = cursor.take<float>(WeightSlices::elements_of_x(most));
      dy = cursor.take<float>(WeightSlices::elements_of_dy(most));
      sum = cursor.take<float>(gradient.weights_);
      part = gradient.slices_.several() ? cursor.take<float>(gradient.weights_) : sum;
    }
  };

  const KernelCall& call_;
  WeightSlices slices_;
  int64_t weights_;
};

template <class S>
void register_half() {
  register_kernel(
      kernel::conv2d_backward_weight, DeviceType::cpu, dtype_of<S>,
      [](const KernelCall& call, const Conv2dOptions& options) {
        HalfWeightGradient<S>(call, options).run();
      },
      [](const KernelCall& call, const Conv2dOptions& options) {
        return HalfWeightGradient<S>(call, options).scratch_bytes();
      });
}

template <class T, bool kAdds>
int64_t backward_weight_scratch(const KernelCall& call, const Conv2dOptions& options) {
  return WeightGradient<T>(call, options, kAdds).scratch_bytes();
}

template <class T, bool kAdds>
void backward_weight(const KernelCall& call, const Conv2dOptions& options) {
  WeightGradient<T>(call, options, kAdds).run();
}

template <class T>
void register_for() {
  register_kernel(kernel::conv2d, DeviceType::cpu, dtype_of<T>, forward<T>, forward_scratch<T>);
  register_kernel(kernel::conv2d_backward_data, DeviceType::cpu, dtype_of<T>, backward_data<T>,
                  backward_data_scratch<T>);
  register_kernel(kernel::conv2d_backward_weight, DeviceType::cpu, dtype_of<T>,
                  backward_weight<T, false>, backward_weight_scratch<T, false>);
  register_kernel(kernel::conv2d_backward_weight_add, DeviceType::cpu, dtype_of<T>,
                  backward_weight<T, true>, backward_weight_scratch<T, true>);
}

}  // namespace

template <class T>
int64_t conv2d_backward_data_scratch(const ConvShape& shape) {
  if (shape.is_depthwise()) return depthwise_scratch<T>(shape);
  if (auto* convolution = library<T>(shape, Pass::backward_data))
    return onednn::scratch_bytes(*convolution);
  return conv2d_generic_backward_data_scratch<T>(shape);
}

template <class T>
void conv2d_backward_data(const ConvShape& shape, const T* dy, const T* weight, T* dx,
                          void* scratch) {
  if (shape.is_depthwise()) return depthwise_backward_data(shape, dy, weight, dx, scratch);
  if constexpr (std::is_same_v<T, float>)
    if (auto* convolution = library<T>(shape, Pass::backward_data))
      return onednn::run(*convolution, dy, weight, nullptr, dx, scratch);
  conv2d_generic_backward_data(shape, dy, weight, dx, scratch);
}

template int64_t conv2d_backward_data_scratch<float>(const ConvShape&);
template int64_t conv2d_backward_data_scratch<double>(const ConvShape&);
template void conv2d_backward_data(const ConvShape&, const float*, const float*, float*, void*);
template void conv2d_backward_data(const ConvShape&, const double*, const double*, double*, void*);

void register_conv2d() {
  register_for<float>();
  register_for<double>();
  register_half<BFloat16>();
  register_half<Float16>();
}

}  // namespace brim::cpu
