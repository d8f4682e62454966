#include <tuple>

#include "brim/base/parallel.h"
#include "brim/ops/onednn_version.h"

namespace brim::onednn {
namespace {

using Dims = memory::dims;

DataType type_of(Dtype dtype) {
  check(dtype == Dtype::float32 || dtype == Dtype::bfloat16, "oneDNN convolves these alone");
  return dtype == Dtype::bfloat16 ? DataType::bf16 : DataType::f32;
}

/// The tensors of a convolution; `weight` as brim stores it, `any_weight` for oneDNN to choose.
struct Descriptors {
  memory::desc x, y, weight, any_weight, bias;

  /// `of_weight`: that of the weight alone; its gradient is float32 in bfloat16 too.
  Descriptors(const ConvShape& s, DataType type, DataType of_weight)
      : x({s.n, s.c, s.h, s.w}, type, Dims{s.h * s.w * s.c, 1, s.w * s.c, s.c}),
        y({s.n, s.k, s.p, s.q}, type, Dims{s.p * s.q * s.k, 1, s.q * s.k, s.k}),
        bias({s.k}, type, memory::format_tag::a) {
    int64_t channels = s.group_channels(), outputs = s.group_outputs(), window = s.window();
    Dims dims{outputs, channels, s.r, s.s}, strides{window, 1, s.s * channels, channels};
    if (s.groups > 1) {
      dims.insert(dims.begin(), s.groups);
      strides.insert(strides.begin(), outputs * window);
    }
    weight = {dims, of_weight, strides};
    any_weight = {dims, of_weight, memory::format_tag::any};
  }
};

using Made = std::unique_ptr<Primitive>;

/// Strides, dilations (0 means dense) and paddings as oneDNN counts them.
struct Window {
  Dims strides, dilations, padding;
  explicit Window(const ConvShape& s)
      : strides{s.stride.h, s.stride.w},
        dilations{s.dilation.h - 1, s.dilation.w - 1},
        padding{s.padding.h, s.padding.w} {}
};

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

/// Nothing where `accept` takes no implementation.
template <class Accept>
std::optional<Description<dnnl::convolution_forward>> describe_forward(
    const ConvShape& shape, bool with_bias, DataType type, dnnl::prop_kind kind,
    const dnnl::primitive_attr& attributes, const Accept& accept) {
  using Forward = dnnl::convolution_forward;
  const Descriptors d(shape, type, type);
  const Window w(shape);
  if (with_bias)
    return describe<Forward>(attributes, accept, kind, kAlgorithm, d.x, d.any_weight, d.bias, d.y,
                             w.strides, w.dilations, w.padding, w.padding);
  return describe<Forward>(attributes, accept, kind, kAlgorithm, d.x, d.any_weight, d.y, w.strides,
                           w.dilations, w.padding, w.padding);
}

Made make_forward(const ConvShape& shape, bool with_bias, DataType type, dnnl::prop_kind kind,
                  const dnnl::primitive_attr& attributes) {
  const auto desc = describe_forward(shape, with_bias, type, kind, attributes, KeepsToScratch());
  if (!desc) return nullptr;
  const Descriptors d(shape, type, type);
  std::optional<Argument> bias;
  if (with_bias) bias = {DNNL_ARG_BIAS, d.bias};
  return Primitive::make<dnnl::convolution_forward>(*desc, {DNNL_ARG_SRC, d.x},
                                                    {DNNL_ARG_WEIGHTS, desc->weights_desc()},
                                                    {DNNL_ARG_DST, d.y}, bias, 1, d.weight);
}

Made make_fused(const ConvShape& shape, bool with_bias, const Epilogue& epilogue) {
  dnnl::post_ops ops;
  if (epilogue.adds) ops.append_sum();
  dnnl::primitive_attr with_epilogue = attributes();
  with_epilogue.set_post_ops(ops);
  return make_forward(shape, with_bias, DataType::f32, dnnl::prop_kind::forward_inference,
                      with_epilogue);
}

/// Of `convolution_backward_data` or `convolution_backward_weights`, or nothing.
template <class Backward>
std::optional<Description<Backward>> describe_backward(const ConvShape& shape, const Descriptors& d,
                                                       DataType type) {
  const auto any = [](const auto&) { return true; };
  const auto forward =
      describe_forward(shape, false, type, dnnl::prop_kind::forward_training, attributes(), any);
  const Window w(shape);
  return describe_gradient<Backward>(*forward, KeepsToScratch(), kAlgorithm, d.x, d.any_weight, d.y,
                                     w.strides, w.dilations, w.padding, w.padding);
}

Made make_backward_data(const ConvShape& shape, DataType type) {
  using Backward = dnnl::convolution_backward_data;
  const Descriptors d(shape, type, type);
  const auto desc = describe_backward<Backward>(shape, d, type);
  if (!desc) return nullptr;
  return Primitive::make<Backward>(*desc, {DNNL_ARG_DIFF_DST, d.y},
                                   {DNNL_ARG_WEIGHTS, desc->weights_desc()},
                                   {DNNL_ARG_DIFF_SRC, d.x}, {}, 1, d.weight);
}

Made make_backward_weight(const ConvShape& shape, DataType type) {
  using Backward = dnnl::convolution_backward_weights;
  const Descriptors d(shape, type, DataType::f32);
  const auto desc = describe_backward<Backward>(shape, d, type);
  if (!desc) return nullptr;
  return Primitive::make<Backward>(*desc, {DNNL_ARG_SRC, d.x}, {DNNL_ARG_DIFF_DST, d.y},
                                   {DNNL_ARG_DIFF_WEIGHTS, desc->diff_weights_desc()}, {}, 2,
                                   d.weight);
}

Made make(const ConvShape& shape, Pass pass, bool with_bias, DataType type) {
  if (pass == Pass::backward_data) return make_backward_data(shape, type);
  if (pass == Pass::backward_weight) return make_backward_weight(shape, type);
  return make_forward(shape, with_bias, type, dnnl::prop_kind::forward_training, attributes());
}

using Key = std::array<int64_t, 20>;

Key key_of(const ConvShape& s, Pass pass, bool with_bias, Dtype dtype) {
  return {s.n, s.h, s.w, s.c, s.k, s.r, s.s, s.p, s.q, s.stride.h, s.stride.w, s.padding.h,
          s.padding.w, s.dilation.h, s.dilation.w, s.groups, static_cast<int64_t>(pass), with_bias,
          static_cast<int64_t>(dtype),
          // Work is divided, and scratch sized, when the primitive is made.
          num_threads()};
}

}  // namespace

PrimitivePtr find_convolution(const ConvShape& shape, Pass pass, bool with_bias, Dtype dtype) {
  static auto* cache = new Cache<Key>;
  return cache->find(key_of(shape, pass, with_bias, dtype),
                     [&] { return make(shape, pass, with_bias, type_of(dtype)); });
}

PrimitivePtr find_fused_convolution(const ConvShape& shape, bool with_bias,
                                    const Epilogue& epilogue) {
  using FusedKey = std::tuple<Key, bool>;
  static auto* cache = new Cache<FusedKey>;
  const Key key = key_of(shape, Pass::forward, with_bias, Dtype::float32);
  return cache->find({key, epilogue.adds}, [&] { return make_fused(shape, with_bias, epilogue); });
}

}  // namespace brim::onednn
