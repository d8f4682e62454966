// Convolutions of halves: depthwise ones, some weight gradients and what a matrix unit does by
// brim's own kernels, others by oneDNN in bfloat16 where the processor has instructions for it.
// Else the launch widens x and y; a weight gradient widens slice by slice.
#include <algorithm>
#include <type_traits>

#include "brim/core/half_simd.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/cpu/amx_data.h"
#include "brim/ops/cpu/amx_weight.h"
#include "brim/ops/cpu/conv2d_slices.h"
#include "brim/ops/cpu/depthwise.h"
#include "brim/ops/cpu/dot_weight.h"
#include "brim/ops/cpu/narrow_weight.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/onednn.h"

namespace brim::cpu {
namespace {

using onednn::Pass;

/// oneDNN's for halves of `S`, or null.
template <class S>
onednn::PrimitivePtr library(const ConvShape& shape, Pass pass, bool with_bias = false) {
  if (!std::is_same_v<S, BFloat16> || !onednn::has_bfloat16() || is_empty(shape)) return nullptr;
  return onednn::find_convolution(shape, pass, with_bias, Dtype::bfloat16);
}

ConvShape shape_of(Pass pass, const KernelCall& call, const Conv2dOptions& options) {
  return pass == Pass::forward ? forward_shape(call, options) : data_shape(call, options);
}

/// What makes y or dx; nothing where the launch has to widen.
enum class DataWay { none, depthwise, tiles, library };
template <class S, Pass kPass>
DataWay data_way(const ConvShape& shape, bool with_bias) {
  if (shape.is_depthwise()) return DataWay::depthwise;
  if (std::is_same_v<S, BFloat16> && kPass == Pass::backward_data && has_amx_data(shape))
    return DataWay::tiles;
  return library<S>(shape, kPass, with_bias) != nullptr ? DataWay::library : DataWay::none;
}
bool has_bias(Pass pass, const KernelCall& call) {
  return pass == Pass::forward && call.in[2].present;
}

template <class S, Pass kPass>
bool suits(const KernelCall& call, const Conv2dOptions& options) {
  return data_way<S, kPass>(shape_of(kPass, call, options), has_bias(kPass, call)) != DataWay::none;
}

template <class S, Pass kPass>
int64_t scratch(const KernelCall& call, const Conv2dOptions& options) {
  const ConvShape shape = shape_of(kPass, call, options);
  const bool with_bias = has_bias(kPass, call);
  switch (data_way<S, kPass>(shape, with_bias)) {
    case DataWay::depthwise:
      return depthwise_scratch<S>(shape);
    case DataWay::tiles:
      return amx_backward_data_scratch(shape);
    case DataWay::library:
      return onednn::scratch_bytes(*library<S>(shape, kPass, with_bias));
    case DataWay::none:
      break;
  }
  return 0;
}

/// Forward, or the data gradient.
template <class S, Pass kPass>
void convolve(const KernelCall& call, const Conv2dOptions& options) {
  const ConvShape shape = shape_of(kPass, call, options);
  const bool with_bias = has_bias(kPass, call);
  const S *from = call.in[0].as<S>(), *weight = call.in[1].as<S>();
  const S* bias = with_bias ? call.in[2].as<S>() : nullptr;
  S* to = call.out[0].as<S>();
  const DataWay way = data_way<S, kPass>(shape, with_bias);
  if (way == DataWay::library)
    return onednn::run(*library<S>(shape, kPass, with_bias), from, weight, bias, to, call.scratch);
  if constexpr (std::is_same_v<S, BFloat16>)
    if (way == DataWay::tiles)
      return amx_backward_data(shape, from, weight, /*adds=*/false, to, call.scratch);
  if (kPass == Pass::forward)
    depthwise(shape, from, weight, bias, to, call.scratch);
  else
    depthwise_backward_data(shape, from, weight, to, call.scratch);
}

template <class To, class From>
void convert_all(To* to, const From* from, int64_t count) {
  parallel_for(count, 16384, [=](int64_t begin, int64_t end) {
    convert_row(to + begin, from + begin, end - begin);
  });
}

/// Float32 copies for the gradient of a slice.
struct WideSlice {
  float *x, *dy;
  WideSlice(const ConvShape& shape, ScratchCursor& cursor)
      : x(cursor.take<float>(elements_of_x(shape))),
        dy(cursor.take<float>(elements_of_dy(shape))) {}
};

/// What makes a weight gradient: `tiles` of AMX, `dots` of pairs; `widened` is float32's kernel on
/// copies, slice by slice.
enum class Way { depthwise, narrow, tiles, dots, library, widened };
template <class S>
Way way_of(const ConvShape& shape) {
  if (shape.is_depthwise()) return Way::depthwise;
  if (std::is_same_v<S, BFloat16> && has_amx_weight(shape)) return Way::tiles;
  if (has_narrow_weight<S>(shape)) return Way::narrow;
  if (std::is_same_v<S, BFloat16> && has_dot_weight(shape)) return Way::dots;
  return library<S>(shape, Pass::backward_weight) != nullptr ? Way::library : Way::widened;
}

template <class S>
int64_t slice_scratch(const ConvShape& shape) {
  switch (way_of<S>(shape)) {
    case Way::depthwise:
      return depthwise_backward_weight_scratch<S>(shape);
    case Way::narrow:
      return narrow_backward_weight_scratch<S>(shape);
    case Way::tiles:
      return amx_backward_weight_scratch(shape);
    case Way::dots:
      return dot_backward_weight_scratch(shape);
    case Way::library:
      return onednn::scratch_bytes(*library<S>(shape, Pass::backward_weight));
    case Way::widened:
      break;
  }
  ScratchCursor cursor(nullptr);
  WideSlice(shape, cursor);
  return cursor.used() + conv2d_slice_scratch<float>(shape);
}

/// dweight in float32.
template <class S>
void slice_gradient(const ConvShape& shape, const S* x, const S* dy, float* dweight,
                    void* scratch) {
  switch (way_of<S>(shape)) {
    case Way::depthwise:
      return depthwise_backward_weight(shape, x, dy, dweight, scratch);
    case Way::narrow:
      return narrow_backward_weight(shape, x, dy, dweight, scratch);
    case Way::tiles:
      if constexpr (std::is_same_v<S, BFloat16>)
        amx_backward_weight(shape, x, dy, dweight, scratch);
      return;
    case Way::dots:
      if constexpr (std::is_same_v<S, BFloat16>)
        dot_backward_weight(shape, x, dy, dweight, scratch);
      return;
    case Way::library:
      return onednn::run(*library<S>(shape, Pass::backward_weight), x, dy, nullptr, dweight,
                         scratch);
    case Way::widened:
      break;
  }
  ScratchCursor cursor(scratch);
  const WideSlice wide(shape, cursor);
  convert_all(wide.x, x, elements_of_x(shape));
  convert_all(wide.dy, dy, elements_of_dy(shape));
  conv2d_slice_gradient<float>(shape, wide.x, wide.dy, dweight, cursor.take<char>(0));
}

/// One slice where halves are read as they are: no saved tensor in halves comes by rows
/// (`has_slices`), and only copies are better small.
template <class S>
WeightSlices slices_of(const KernelCall& call, const Conv2dOptions& options) {
  WeightSlices slices(call, options);
  if (way_of<S>(slices.shape) != Way::widened) slices.images = std::max<int64_t>(slices.shape.n, 1);
  return slices;
}

/// The sum of slices is in float32, and rounded once.
template <class S>
class WeightGradient {
 public:
  WeightGradient(const KernelCall& call, const Conv2dOptions& options)
      : call_(call), slices_(slices_of<S>(call, options)), weights_(call.out[0].numel()) {}

  int64_t scratch_bytes() const {
    ScratchCursor cursor(nullptr);
    Sums(*this, cursor);
    return cursor.used() + slices_.scratch(slice_scratch<S>);
  }

  void run() const {
    ScratchCursor cursor(call_.scratch);
    const Sums sums(*this, cursor);
    void* rest = cursor.take<char>(0);
    const S *x = call_.in[0].as<S>(), *dy = call_.in[1].as<S>();
    slices_.each([&](const ConvShape& shape, bool first) {
      slice_gradient(shape, x, dy, first ? sums.all : sums.part, rest);
      if (!first) add_to(sums.all, sums.part, weights_);
      x += elements_of_x(shape);
      dy += elements_of_dy(shape);
    });
    convert_all(call_.out[0].as<S>(), sums.all, weights_);
  }

 private:
  struct Sums {
    float *all, *part;
    Sums(const WeightGradient& gradient, ScratchCursor& cursor) {
      all = cursor.take<float>(gradient.weights_);
      part = gradient.slices_.several() ? cursor.take<float>(gradient.weights_) : all;
    }
  };

  const KernelCall& call_;
  WeightSlices slices_;
  int64_t weights_;
};

/// dx += the data gradient: in registers by a matrix unit, else oneDNN's, some images at a time:
/// from one to the other it stays in the caches. Each is rounded before it is added, as where there
/// is a tensor of it.
class AddedData {
 public:
  AddedData(const KernelCall& call, const Conv2dOptions& options)
      : call_(call), slices_(slices_of(data_shape(call, options))) {}

  static bool suits(const KernelCall& call, const Conv2dOptions& options) {
    const ConvShape whole = data_shape(call, options);
    if (is_empty(whole)) return false;
    if (has_tiles(whole)) return true;
    bool all = true;
    slices_of(whole).each([&](const ConvShape& part, bool) { all &= found(part) != nullptr; });
    return all;
  }
  int64_t scratch_bytes() const {
    if (has_tiles(slices_.shape)) return amx_backward_data_scratch(slices_.shape);
    ScratchCursor cursor(nullptr);
    take_part(cursor);
    return cursor.used() + slices_.scratch([](const ConvShape& part) {
      return onednn::scratch_bytes(*found(part));
    });
  }
  void run() const {
    const BFloat16 *dy = call_.in[0].as<BFloat16>(), *weight = call_.in[1].as<BFloat16>();
    BFloat16* sum = call_.out[0].as<BFloat16>();
    if (has_tiles(slices_.shape))
      return amx_backward_data(slices_.shape, dy, weight, /*adds=*/true, sum, call_.scratch);
    ScratchCursor cursor(call_.scratch);
    BFloat16* dx = take_part(cursor);
    void* rest = cursor.take<char>(0);
    slices_.each([&](const ConvShape& part, bool) {
      onednn::run(*found(part), dy, weight, nullptr, dx, rest);
      add_to(sum, dx, elements_of_x(part));
      dy += elements_of_dy(part);
      sum += elements_of_x(part);
    });
  }

 private:
  static ImageSlices slices_of(const ConvShape& whole) {
    constexpr auto kSize = static_cast<int64_t>(sizeof(BFloat16));
    return {whole, kBytesOfRows / std::max<int64_t>(whole.h * whole.w * whole.c * kSize, 1)};
  }
  static bool has_tiles(const ConvShape& whole) { return has_amx_data(whole); }
  static onednn::PrimitivePtr found(const ConvShape& shape) {
    return library<BFloat16>(shape, Pass::backward_data);
  }
  BFloat16* take_part(ScratchCursor& cursor) const {
    return cursor.take<BFloat16>(elements_of_x(slices_.slice(slices_.images)));
  }

  const KernelCall& call_;
  ImageSlices slices_;
};

template <class S>
void register_for() {
  register_kernel(kernel::conv2d, DeviceType::cpu, dtype_of<S>, convolve<S, Pass::forward>,
                  scratch<S, Pass::forward>, suits<S, Pass::forward>);
  register_kernel(kernel::conv2d_backward_data, DeviceType::cpu, dtype_of<S>,
                  convolve<S, Pass::backward_data>, scratch<S, Pass::backward_data>,
                  suits<S, Pass::backward_data>);
  register_kernel(
      kernel::conv2d_backward_weight, DeviceType::cpu, dtype_of<S>,
      [](const KernelCall& call, const Conv2dOptions& options) {
        WeightGradient<S>(call, options).run();
      },
      [](const KernelCall& call, const Conv2dOptions& options) {
        return WeightGradient<S>(call, options).scratch_bytes();
      });
}

}  // namespace

void register_conv2d_half() {
  register_for<BFloat16>();
  register_for<Float16>();
  if (!onednn::has_bfloat16()) return;
  register_kernel(
      kernel::conv2d_backward_data_add, DeviceType::cpu, Dtype::bfloat16,
      [](const KernelCall& call, const Conv2dOptions& options) { AddedData(call, options).run(); },
      [](const KernelCall& call, const Conv2dOptions& options) {
        return AddedData(call, options).scratch_bytes();
      },
      AddedData::suits);
}

}  // namespace brim::cpu
