// Convolution for inference: oneDNN's, which adds bias and residual as it writes, or brim's own
// kernels; then a pass for what is left. It goes through the functors of the plain ops, so that NaN
// and infinities come out as they do there.
#include "brim/ops/fused_conv2d.h"

#include <algorithm>
#include <type_traits>

#include "brim/base/parallel.h"
#include "brim/ops/activation_functors.h"
#include "brim/ops/cpu/conv2d.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/fused_library.h"

namespace brim::cpu {
namespace {

using kernel::FusedConv2dAttributes;
using kernel::PackWeightAttributes;

constexpr int64_t kGrain = 16384;  // elements that repay a second thread

/// The inputs by name.
struct Call {
  ConvShape shape;
  const View &x, &weight, &bias, &residual, &packed, &y;

  Call(const KernelCall& call, const FusedConv2dAttributes& attributes)
      : shape(call.in[0].shape, call.in[1].shape, call.out[0].shape, attributes.window),
        x(call.in[0]),
        weight(call.in[1]),
        bias(call.in[2]),
        residual(call.in[3]),
        packed(call.in[4]),
        y(call.out[0]) {}
};

template <class T>
onednn::PrimitivePtr library(const Call& c) {
  if constexpr (!std::is_same_v<T, float>) return nullptr;
  return fused_library(c.shape, c.bias.present, {.adds = c.residual.present});
}

/// y = activation(sum + residual), of which any may be in the same place.
template <class T, class F>
void finish_as(const T* sum, const T* residual, T* y, int64_t count, const F& f) {
  parallel_for(count, kGrain, [=](int64_t begin, int64_t end) {
    if (residual == nullptr)
      for (int64_t i = begin; i < end; ++i) y[i] = f(sum[i]);
    else
      for (int64_t i = begin; i < end; ++i) y[i] = f(sum[i] + residual[i]);
  });
}

template <class T>
void finish(const T* sum, const T* residual, T* y, int64_t count, Activation activation) {
  switch (activation) {
    case Activation::none:
      if (residual != nullptr) finish_as(sum, residual, y, count, [](T value) { return value; });
      return;
    case Activation::relu:
      return finish_as(sum, residual, y, count, functor::Relu());
    case Activation::relu6:
      return finish_as(sum, residual, y, count, functor::Relu6());
    case Activation::hardswish:
      return finish_as(sum, residual, y, count, functor::Hardswish());
  }
}

/// Of brim's own kernels. With a residual the sums have a place of their own: y may be the
/// residual.
template <class T>
struct OwnScratch {
  T* sums;
  void* rest;
  OwnScratch(const Call& c, ScratchCursor& cursor)
      : sums(c.residual.present ? cursor.take<T>(c.y.numel()) : nullptr),
        rest(cursor.take<char>(own_conv2d_scratch<T>(c.shape))) {}
};

template <class T>
int64_t scratch(const KernelCall& call, const FusedConv2dAttributes& attributes) {
  const Call c(call, attributes);
  if (const auto convolution = library<T>(c))
    return c.packed.present ? onednn::scratch_bytes_packed(*convolution)
                            : onednn::scratch_bytes(*convolution);
  ScratchCursor cursor(nullptr);
  OwnScratch<T>(c, cursor);
  return cursor.used();
}

/// oneDNN adds to what y holds.
template <class T>
void put_residual(const Call& c) {
  const T* residual = c.residual.as<T>();
  T* y = c.y.as<T>();
  if (residual == y) return;
  parallel_for(c.y.numel(), kGrain, [=](int64_t begin, int64_t end) {
    std::copy(residual + begin, residual + end, y + begin);
  });
}

/// y = convolution + bias + residual.
template <class T>
void run_library(const onednn::Primitive& convolution, const Call& c, const T* bias,
                 void* scratch) {
  if (c.residual.present) put_residual<T>(c);
  if (c.packed.present)
    onednn::run_packed(convolution, c.x.data, c.packed.data, bias, c.y.data, scratch);
  else
    onednn::run(convolution, c.x.data, c.weight.data, bias, c.y.data, scratch);
}

template <class T>
void forward(const KernelCall& call, const FusedConv2dAttributes& attributes) {
  const Call c(call, attributes);
  const T* bias = c.bias.present ? c.bias.as<T>() : nullptr;
  if (const auto convolution = library<T>(c)) {
    run_library(*convolution, c, bias, call.scratch);
    return finish<T>(c.y.as<T>(), nullptr, c.y.as<T>(), c.y.numel(), attributes.activation);
  }
  ScratchCursor cursor(call.scratch);
  const OwnScratch<T> own(c, cursor);
  T *y = c.y.as<T>(), *sums = c.residual.present ? own.sums : y;
  own_conv2d(c.shape, c.x.as<T>(), c.weight.as<T>(), bias, sums, own.rest);
  finish(sums, c.residual.present ? c.residual.as<T>() : nullptr, y, c.y.numel(),
         attributes.activation);
}

onednn::PrimitivePtr packing(const KernelCall& call, const PackWeightAttributes& a) {
  const Shape& weight = call.in[0].shape;
  const ConvShape shape(a.x, weight, conv2d_shape(a.x, weight, a.window), a.window);
  onednn::PrimitivePtr found = fused_library(shape, a.with_bias, {.adds = a.with_residual});
  check(found != nullptr, "the library packs weights of its own convolutions");
  return found;
}

int64_t pack_scratch(const KernelCall& call, const PackWeightAttributes& attributes) {
  return onednn::scratch_bytes(*packing(call, attributes));
}

void pack(const KernelCall& call, const PackWeightAttributes& attributes) {
  onednn::pack(*packing(call, attributes), call.in[0].data, call.out[0].data, call.scratch);
}

}  // namespace

void register_fused_conv2d() {
  register_kernel(kernel::fused_conv2d, DeviceType::cpu, Dtype::float32, forward<float>,
                  scratch<float>);
  register_kernel(kernel::fused_conv2d, DeviceType::cpu, Dtype::float64, forward<double>,
                  scratch<double>);
  register_kernel(kernel::pack_weight, DeviceType::cpu, Dtype::float32, pack, pack_scratch);
}

}  // namespace brim::cpu
