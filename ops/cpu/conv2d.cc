#include "brim/ops/cpu/conv2d.h"

#include <type_traits>

#include "brim/ops/cpu/batch_norm.h"
#include "brim/ops/cpu/conv2d_generic.h"
#include "brim/ops/cpu/conv2d_slices.h"
#include "brim/ops/cpu/conv2d_weight.h"
#include "brim/ops/cpu/depthwise.h"
#include "brim/ops/cpu/few_pixels.h"
#include "brim/ops/cpu/narrow_weight.h"
#include "brim/ops/cpu/pointwise.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/cpu/winograd.h"
#include "brim/ops/onednn.h"

namespace brim::cpu {
namespace {

using onednn::Pass;

bool ours_is_faster(const ConvShape& shape, Pass pass, const onednn::Primitive& found) {
  if (pass == Pass::backward_data || shape.groups > 1) return false;
  return onednn::is_slow_on_nhwc(found, shape) ||
         (pass == Pass::backward_weight && onednn::is_direct_avx2(found) &&
          has_weight_tiles<float>(shape));
}

/// oneDNN's convolution where it is the way to go, else null.
template <class T>
onednn::PrimitivePtr library(const ConvShape& shape, Pass pass, bool with_bias = false) {
  if constexpr (!std::is_same_v<T, float>) return nullptr;
  if (is_empty(shape)) return nullptr;
  onednn::PrimitivePtr found = onednn::find_convolution(shape, pass, with_bias);
  if (found == nullptr || ours_is_faster(shape, pass, *found)) return nullptr;
  return found;
}

// These are for float32.
template <class T>
bool has_winograd(const ConvShape& shape, Pass pass) {
  return std::is_same_v<T, float> && winograd::suits(shape, pass);
}
template <class T>
bool has_pointwise(const ConvShape& shape, Pass pass) {
  return std::is_same_v<T, float> && pointwise::suits(shape, pass);
}

/// Do brim's kernels compute y for one call, in which a library would have to order the weights?
bool computes_y_itself(const ConvShape& shape) {
  return shape.is_depthwise() || has_few_pixels(shape, kFewPixelsOfOneCall);
}

/// Does the kernel that computes y gather its statistics?
template <class T>
bool gathers_statistics(const ConvShape& shape) {
  if constexpr (!std::is_same_v<T, float>) return false;
  if (computes_y_itself(shape)) return depthwise_gathers_statistics(shape);
  return has_winograd<T>(shape, Pass::forward) || has_pointwise<T>(shape, Pass::forward);
}

template <class T>
int64_t scratch_of_y(const KernelCall& call, const ConvShape& shape, bool with_statistics) {
  if (computes_y_itself(shape))
    return with_statistics && gathers_statistics<T>(shape)
               ? depthwise_with_statistics_scratch(shape)
               : own_conv2d_scratch<T>(shape);
  if (has_winograd<T>(shape, Pass::forward))
    return winograd::forward_scratch(shape, with_statistics);
  if (has_pointwise<T>(shape, Pass::forward))
    return pointwise::forward_scratch(shape, with_statistics);
  if (const auto convolution = library<T>(shape, Pass::forward, call.in[2].present))
    return onednn::scratch_bytes(*convolution);
  return own_conv2d_scratch<T>(shape);
}

/// y, and the statistics if they are wanted and the kernel gathers them.
template <class T>
void compute_y(const KernelCall& call, const ConvShape& shape, const BatchStatistics& statistics) {
  const T *x = call.in[0].as<T>(), *weight = call.in[1].as<T>();
  const T* bias = call.in[2].present ? call.in[2].as<T>() : nullptr;
  T* y = call.out[0].as<T>();
  if constexpr (std::is_same_v<T, float>)
    if (statistics.are_wanted() && depthwise_gathers_statistics(shape))
      return depthwise_with_statistics(shape, x, weight, bias, y, statistics, call.scratch);
  if (computes_y_itself(shape)) return own_conv2d(shape, x, weight, bias, y, call.scratch);
  if constexpr (std::is_same_v<T, float>) {
    if (winograd::suits(shape, Pass::forward))
      return winograd::forward(shape, x, weight, bias, y, statistics, call.scratch);
    if (pointwise::suits(shape, Pass::forward))
      return pointwise::forward(shape, x, weight, bias, y, statistics, call.scratch);
  }
  if (const auto convolution = library<T>(shape, Pass::forward, bias != nullptr))
    return onednn::run(*convolution, x, weight, bias, y, call.scratch);
  own_conv2d(shape, x, weight, bias, y, call.scratch);
}

template <class T>
int64_t forward_scratch(const KernelCall& call, const Conv2dOptions& options) {
  return scratch_of_y<T>(call, forward_shape(call, options), false);
}

template <class T>
void forward(const KernelCall& call, const Conv2dOptions& options) {
  compute_y<T>(call, forward_shape(call, options), {});
}

template <class T>
int64_t with_statistics_scratch(const KernelCall& call, const Conv2dOptions& options) {
  const ConvShape shape = forward_shape(call, options);
  const int64_t bytes = scratch_of_y<T>(call, shape, true);
  if (gathers_statistics<T>(shape)) return bytes;
  return std::max(bytes, channel_statistics_scratch<T>(ChannelRows(call.out[0])));
}

template <class T>
void with_statistics(const KernelCall& call, const Conv2dOptions& options) {
  const ConvShape shape = forward_shape(call, options);
  const BatchStatistics statistics{call.out[1].as<double>(), call.out[2].as<double>()};
  compute_y<T>(call, shape, statistics);
  if (!gathers_statistics<T>(shape))
    channel_statistics(ChannelRows(call.out[0]), call.out[0].as<T>(), statistics, call.scratch);
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

/// Where brim's kernel does not add it while it is in registers, the gradient is made first.
template <class T>
int64_t add_backward_data_scratch(const KernelCall& call, const Conv2dOptions& options) {
  const ConvShape shape = data_shape(call, options);
  ScratchCursor cursor(nullptr);
  if (!has_pointwise<T>(shape, Pass::backward_data)) cursor.take<T>(elements_of_x(shape));
  return cursor.used() + conv2d_backward_data_scratch<T>(shape);
}

template <class T>
void add_backward_data(const KernelCall& call, const Conv2dOptions& options) {
  const ConvShape shape = data_shape(call, options);
  const T *dy = call.in[0].as<T>(), *weight = call.in[1].as<T>();
  T* sum = call.out[0].as<T>();
  if constexpr (std::is_same_v<T, float>)
    if (pointwise::suits(shape, Pass::backward_data))
      return pointwise::add_backward_data(shape, dy, weight, sum, call.scratch);
  ScratchCursor cursor(call.scratch);
  T* dx = cursor.take<T>(elements_of_x(shape));
  conv2d_backward_data(shape, dy, weight, dx, cursor.take<char>(0));
  add_to(sum, dx, elements_of_x(shape));
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
    return cursor.used() + slices_.scratch(conv2d_slice_scratch<T>);
  }

  void run() const {
    ScratchCursor cursor(call_.scratch);
    T *part = take_part(cursor), *sum = call_.out[0].template as<T>();
    void* rest = cursor.take<char>(0);
    const T *x = call_.in[0].template as<T>(), *dy = call_.in[1].template as<T>();
    slices_.each([&](const ConvShape& shape, bool first) {
      const bool adds = adds_ || !first;
      conv2d_slice_gradient(shape, x, dy, adds ? part : sum, rest);
      if (adds) add_to(sum, part, weights_);
      x += elements_of_x(shape);
      dy += elements_of_dy(shape);
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

template <class T, bool kAdds>
int64_t backward_weight_scratch(const KernelCall& call, const Conv2dOptions& options) {
  return WeightGradient<T>(call, options, kAdds).scratch_bytes();
}

template <class T, bool kAdds>
void backward_weight(const KernelCall& call, const Conv2dOptions& options) {
  WeightGradient<T>(call, options, kAdds).run();
}

template <class T>
void windows(const KernelCall& call, const Conv2dOptions& options) {
  const Shape& w = call.out[0].shape;
  const ConvShape shape(call.in[0].shape, {1, w[3], w[4], w[5]}, {w[0], w[1], w[2], 1}, options);
  conv2d_windows(shape, call.in[0].as<T>(), call.out[0].as<T>());
}

template <class T>
void register_for() {
  register_kernel(kernel::conv2d, DeviceType::cpu, dtype_of<T>, forward<T>, forward_scratch<T>);
  register_kernel(kernel::conv2d_with_statistics, DeviceType::cpu, dtype_of<T>, with_statistics<T>,
                  with_statistics_scratch<T>);
  register_kernel(kernel::conv2d_backward_data, DeviceType::cpu, dtype_of<T>, backward_data<T>,
                  backward_data_scratch<T>);
  register_kernel(kernel::conv2d_backward_data_add, DeviceType::cpu, dtype_of<T>,
                  add_backward_data<T>, add_backward_data_scratch<T>);
  register_kernel(kernel::conv2d_backward_weight, DeviceType::cpu, dtype_of<T>,
                  backward_weight<T, false>, backward_weight_scratch<T, false>);
  register_kernel(kernel::conv2d_backward_weight_add, DeviceType::cpu, dtype_of<T>,
                  backward_weight<T, true>, backward_weight_scratch<T, true>);
  register_kernel(kernel::conv2d_windows, DeviceType::cpu, dtype_of<T>, windows<T>);
}

}  // namespace

bool has_own_forward(const ConvShape& shape) {
  return shape.is_depthwise() || has_few_pixels(shape);
}

template <class T>
int64_t own_conv2d_scratch(const ConvShape& shape) {
  if (shape.is_depthwise()) return depthwise_scratch<T>(shape);
  if (has_few_pixels(shape, kFewPixelsOfOneCall))
    return few_pixels_scratch<T>(shape, Pass::forward);
  return conv2d_generic_scratch<T>(shape);
}

template <class T>
void own_conv2d(const ConvShape& shape, const T* x, const T* weight, const T* bias, T* y,
                void* scratch) {
  if (shape.is_depthwise()) return depthwise(shape, x, weight, bias, y, scratch);
  if (has_few_pixels(shape, kFewPixelsOfOneCall))
    return few_pixels(shape, x, weight, bias, y, scratch);
  conv2d_generic(shape, x, weight, bias, y, scratch);
}

template <class T>
int64_t conv2d_slice_scratch(const ConvShape& shape) {
  if (shape.is_depthwise()) return depthwise_backward_weight_scratch<T>(shape);
  if (has_few_pixels(shape)) return few_pixels_scratch<T>(shape, Pass::backward_weight);
  if (has_narrow_weight<T>(shape)) return narrow_backward_weight_scratch<T>(shape);
  if (has_winograd<T>(shape, Pass::backward_weight))
    return winograd::backward_weight_scratch(shape);
  if (const auto convolution = library<T>(shape, Pass::backward_weight))
    return onednn::scratch_bytes(*convolution);
  if (has_weight_tiles<T>(shape)) return conv2d_tiled_backward_weight_scratch<T>(shape);
  return conv2d_generic_backward_weight_scratch<T>(shape);
}

template <class T>
void conv2d_slice_gradient(const ConvShape& shape, const T* x, const T* dy, T* dweight,
                           void* scratch) {
  if (shape.is_depthwise()) return depthwise_backward_weight(shape, x, dy, dweight, scratch);
  if (has_few_pixels(shape)) return few_pixels_backward_weight(shape, x, dy, dweight, scratch);
  if (has_narrow_weight<T>(shape)) return narrow_backward_weight(shape, x, dy, dweight, scratch);
  if constexpr (std::is_same_v<T, float>) {
    if (winograd::suits(shape, Pass::backward_weight))
      return winograd::backward_weight(shape, x, dy, dweight, scratch);
    if (const auto convolution = library<T>(shape, Pass::backward_weight))
      return onednn::run(*convolution, x, dy, nullptr, dweight, scratch);
  }
  if (has_weight_tiles<T>(shape))
    return conv2d_tiled_backward_weight(shape, x, dy, dweight, scratch);
  conv2d_generic_backward_weight(shape, x, dy, dweight, scratch);
}

template <class T>
int64_t conv2d_backward_data_scratch(const ConvShape& shape) {
  if (shape.is_depthwise()) return depthwise_scratch<T>(shape);
  if (has_few_pixels(shape, kFewPixelsOfOneCall))
    return few_pixels_scratch<T>(shape, Pass::backward_data);
  if (has_winograd<T>(shape, Pass::backward_data)) return winograd::backward_data_scratch(shape);
  if (has_pointwise<T>(shape, Pass::backward_data)) return pointwise::backward_data_scratch(shape);
  if (const auto convolution = library<T>(shape, Pass::backward_data))
    return onednn::scratch_bytes(*convolution);
  return conv2d_generic_backward_data_scratch<T>(shape);
}

template <class T>
void conv2d_backward_data(const ConvShape& shape, const T* dy, const T* weight, T* dx,
                          void* scratch) {
  if (shape.is_depthwise()) return depthwise_backward_data(shape, dy, weight, dx, scratch);
  if (has_few_pixels(shape, kFewPixelsOfOneCall))
    return few_pixels_backward_data(shape, dy, weight, dx, scratch);
  if constexpr (std::is_same_v<T, float>) {
    if (winograd::suits(shape, Pass::backward_data))
      return winograd::backward_data(shape, dy, weight, dx, scratch);
    if (pointwise::suits(shape, Pass::backward_data))
      return pointwise::backward_data(shape, dy, weight, dx, scratch);
    if (const auto convolution = library<T>(shape, Pass::backward_data))
      return onednn::run(*convolution, dy, weight, nullptr, dx, scratch);
  }
  conv2d_generic_backward_data(shape, dy, weight, dx, scratch);
}

template int64_t own_conv2d_scratch<float>(const ConvShape&);
template int64_t own_conv2d_scratch<double>(const ConvShape&);
template void own_conv2d(const ConvShape&, const float*, const float*, const float*, float*, void*);
template void own_conv2d(const ConvShape&, const double*, const double*, const double*, double*,
                         void*);
template int64_t conv2d_backward_data_scratch<float>(const ConvShape&);
template int64_t conv2d_backward_data_scratch<double>(const ConvShape&);
template void conv2d_backward_data(const ConvShape&, const float*, const float*, float*, void*);
template void conv2d_backward_data(const ConvShape&, const double*, const double*, double*, void*);
template int64_t conv2d_slice_scratch<float>(const ConvShape&);
template int64_t conv2d_slice_scratch<double>(const ConvShape&);
template void conv2d_slice_gradient(const ConvShape&, const float*, const float*, float*, void*);
template void conv2d_slice_gradient(const ConvShape&, const double*, const double*, double*, void*);

void register_conv2d() {
  register_for<float>();
  register_for<double>();
}

}  // namespace brim::cpu
